"""What stands in for packs that were not given: the embedded photographs under a shift, and shots beside them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Support
from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.embedded import photographs
from cosmic_tta.demo import BATCH, shifted_pack
from cosmic_tta.domains import part
from cosmic_tta.encoders import Encoder, diffusion, make_clip
from cosmic_tta.generation import seed_of
from cosmic_tta.methods import METHODS
from cosmic_tta.packs import FeaturePack
from cosmic_tta.pictures import open_picture
from cosmic_tta.prompt_learning import Learned
from cosmic_tta.towers import wants_tower, with_tower
from cosmic_tta.training import Course, drawn, trained
from cosmic_tta.views import Views

SHIFT = Corruption("haze", 4)  # as in `cosmic demo`
IMAGES = 2000  # all of them
STREAM = 1600  # the stream beside which few-shot methods run; their shots are of the others
SHOTS = 16  # of each class
VIEWS = 16  # of that stream
DRAWN = 8  # more that the small diffusion model drew, for DiffTPT alone
RATES = {"coop": 0.3, "cocoop": 0.05}  # the small tower's logits and gradients are a twentieth of CLIP's
VIEWED = (
    "The embedded photographs have the size that their encoder reads, so a view is the photograph moved by some "
    "pixels, half of them mirrored: what views do here says nothing about full-size pictures."
)


@cache
def embedded_pack(images: int = IMAGES, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first so many embedded photographs, shifted, one view each; once a process."""
    return shifted_pack(shift, images)


@cache
def embedded_views(images: int = STREAM, views: int = VIEWS, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first embedded photographs, shifted, with several views each; view 0 is the plain photograph."""
    plain = embedded_pack(images, shift)
    clip, drawn_views = make_clip("mini:clip"), Views(views)
    rows = []
    for item in photographs().items[:images]:
        picture = shift(open_picture(item.read()), item.key)
        rows.append(drawn_views.of(picture, item.key, clip.preprocessing))
    return FeaturePack(
        name=f"{plain.name}, {views} views",
        class_names=plain.class_names,
        clip=_encoded(clip, np.stack(rows)),
        text=plain.text,
        aux=plain.aux,
        labels=plain.labels,
        logit_scale=plain.logit_scale,
        clip_model=plain.clip_model,
        aux_model=plain.aux_model,
        source=plain.source,
    )


@cache
def embedded_drawn(images: int = STREAM, drawn_each: int = DRAWN, shift: Corruption = SHIFT) -> FeaturePack:
    """Return the stream with several views, and behind them some that the small diffusion model drew."""
    plain, clip, draw = embedded_views(images, shift=shift), make_clip("mini:clip"), diffusion.load(diffusion.MINI)
    rows = []
    for item in photographs().items[:images]:
        drawn_now = draw(shift(open_picture(item.read()), item.key), drawn_each, seed_of(item.key))
        rows.append(np.stack([clip.preprocessing.pixels(picture) for picture in drawn_now]))
    made = {"drawn views": {"folder": diffusion.MINI, "count": drawn_each}}
    return replace(plain, clip=np.concatenate([plain.clip, _encoded(clip, np.stack(rows))], axis=1), made=made)


def _encoded(clip: Encoder, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Encode views [N, V, height, width, 3]."""
    flat = pixels.reshape(-1, *pixels.shape[2:])
    features = np.concatenate([clip.encode(flat[start : start + BATCH]) for start in range(0, len(flat), BATCH)])
    return features.reshape(*pixels.shape[:2], -1)


@cache
def embedded_shots() -> Support:
    """Draw shots of each class from the photographs that the stream leaves out, shifted as it is."""
    return drawn(part(embedded_pack(), slice(STREAM, None)).support(), SHOTS, seed=0)


@cache
def embedded_lesson(method: str) -> Learned:
    """Train a method on those shots; once a process."""
    pack = embedded_pack()
    task = with_tower(pack).task() if wants_tower(METHODS[method]) else pack.task()
    return trained(method, task, embedded_shots(), Course(rate=RATES.get(method)))
