"""Packs for experiments that were given none: the embedded photographs under a shift, and few-shot examples."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.types import Support
from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.encoders import Encoder, diffusion, make_clip
from cosmic_tta.features.diffusion_views import seed_of
from cosmic_tta.features.embedded_pack import BATCH, shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import subset
from cosmic_tta.features.text_towers import attach_tower, needs_prompt_tower
from cosmic_tta.methods import METHODS
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.training.trainer import TrainingConfig, draw_shots, train_to_end

SHIFT = Corruption("haze", 4)  # as in `cosmic demo`
ALL_IMAGES = 2000
STREAM_IMAGES = 1600  # in the stream; the shots of few-shot methods are drawn from the other photographs
SHOTS = 16  # per class
VIEWS = 16  # per image of the stream
GENERATED_VIEWS = 8  # per image, by the small diffusion model, for DiffTPT alone
RATES = {"coop": 0.3, "cocoop": 0.05}  # the small tower's logits and gradients are a twentieth of CLIP's
VIEWS_NOTE = (
    "The embedded photographs are as small as the encoder's input. A view is the photograph shifted by some pixels, "
    "half of them mirrored. The effect of views here says nothing about full-size images."
)


@cache
def embedded_pack(images: int = ALL_IMAGES, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first embedded photographs under a shift, one view each; computed once per process."""
    return shifted_pack(shift, images)


@cache
def embedded_views(images: int = STREAM_IMAGES, views: int = VIEWS, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first embedded photographs under a shift, several views each; view 0 is the photograph itself."""
    single = embedded_pack(images, shift)
    clip, random_views = make_clip("mini:clip"), RandomViews(views)
    pixels = []
    for item in photographs().items[:images]:
        image = shift(open_image(item.read()), item.key)
        pixels.append(random_views.of(image, item.key, clip.preprocessing))
    return FeaturePack(
        name=f"{single.name}, {views} views",
        class_names=single.class_names,
        clip=_encode_views(clip, np.stack(pixels)),
        text=single.text,
        aux=single.aux,
        labels=single.labels,
        logit_scale=single.logit_scale,
        clip_model=single.clip_model,
        aux_model=single.aux_model,
        source=single.source,
    )


@cache
def embedded_with_generated_views(
    images: int = STREAM_IMAGES, generated: int = GENERATED_VIEWS, shift: Corruption = SHIFT
) -> FeaturePack:
    """Return `embedded_views` with further views that the small diffusion model generated, at the end."""
    plain, clip, generate = embedded_views(images, shift=shift), make_clip("mini:clip"), diffusion.load(diffusion.MINI)
    pixels = []
    for item in photographs().items[:images]:
        views = generate(shift(open_image(item.read()), item.key), generated, seed_of(item.key))
        pixels.append(np.stack([clip.preprocessing.pixels(image) for image in views]))
    provenance = {"generated views": {"folder": diffusion.MINI, "count": generated}}
    features = np.concatenate([plain.clip, _encode_views(clip, np.stack(pixels))], axis=1)
    return replace(plain, clip=features, provenance=provenance)


def _encode_views(clip: Encoder, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Encode views [N, V, height, width, 3] as features [N, V, D]."""
    flat = pixels.reshape(-1, *pixels.shape[2:])
    features = np.concatenate([clip.encode(flat[start : start + BATCH]) for start in range(0, len(flat), BATCH)])
    return features.reshape(*pixels.shape[:2], -1)


@cache
def embedded_shots() -> Support:
    """Draw labelled examples of each class from the photographs outside the stream, under the same shift."""
    return draw_shots(subset(embedded_pack(), slice(STREAM_IMAGES, None)).support(), SHOTS, seed=0)


@cache
def embedded_checkpoint(method: str) -> Checkpoint:
    """Train a method on `embedded_shots`; computed once per process."""
    pack = embedded_pack()
    task = attach_tower(pack).task() if needs_prompt_tower(METHODS[method]) else pack.task()
    return train_to_end(method, task, embedded_shots(), TrainingConfig(rate=RATES.get(method)))
