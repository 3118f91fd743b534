"""A pack of the embedded photographs, with or without a shift, encoded by the embedded encoders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosmic_tta.core.errors import InputError
from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.prompts import class_sentences
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.features.class_texts import text_features
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.source_images import shift_record

BATCH = 100
Watch = Callable[[int, int, str], None]


def shifted_pack(shift: Corruption | None, images: int, watch: Watch = lambda *_: None) -> FeaturePack:
    """Encode embedded photographs.

    Args:
        shift: Corrupts each photograph; None leaves them as they are.
        images: How many photographs, from the first one on.
        watch: Called with images done, images in all, and an empty string.

    Raises:
        InputError: There are fewer photographs.
    """
    dataset = photographs()
    if not 1 <= images <= len(dataset):
        raise InputError(f"there are {len(dataset)} embedded photographs; asked for {images}.")
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    items, clip_rows, aux_rows = dataset.items[:images], [], []
    for start in range(0, images, BATCH):
        images_read = ((open_image(item.read()), item.key) for item in items[start : start + BATCH])
        shifted = [shift(image, key) if shift else image for image, key in images_read]
        clip_rows.append(clip.encode(np.stack([clip.preprocessing.pixels(image) for image in shifted])))
        aux_rows.append(aux.encode(np.stack([aux.preprocessing.pixels(image) for image in shifted])))
        watch(start + len(shifted), images, "")
    return FeaturePack(
        name=f"{dataset.name}, {shift}" if shift else dataset.name,
        class_names=dataset.class_names,
        clip=np.concatenate(clip_rows)[:, None],
        text=text_features(clip, class_sentences(dataset.class_names, dataset.templates)),
        aux=np.concatenate(aux_rows),
        labels=np.array([item.label for item in items]),
        logit_scale=clip.logit_scale,
        clip_model=clip.name,
        aux_model=aux.name,
        source=dataset.source,
        keys=tuple(item.key for item in items),
        provenance=shift_record(shift) if shift else {},
    )
