"""The pictures behind a pack's rows, as the encoders saw them, where they are at hand: the embedded ones."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets import embedded
from cosmic_tta.errors import CosmicError
from cosmic_tta.packs import FeaturePack
from cosmic_tta.pictures import open_picture

SHIFT = "shift"  # where a pack's `made` tells what was done to the pictures
Picture = NDArray[np.uint8]  # [height, width, 3]


def shift_record(shift: Corruption) -> dict[str, object]:
    """Return what a pack records of a shift, so that its pictures can be shown as they were."""
    return {SHIFT: asdict(shift)}


def picture_of(pack: FeaturePack, index: int) -> Picture | None:
    """Return the picture behind a row, or None where it is not at hand."""
    if pack.source != embedded.SOURCE or not pack.keys:
        return None
    number = _numbers().get(pack.keys[index])
    if number is None:
        return None
    picture = open_picture(embedded.read(number))
    told = pack.made.get(SHIFT)
    if isinstance(told, dict):
        try:
            picture = Corruption(**told)(picture, pack.keys[index])
        except (CosmicError, TypeError):  # a shift of another version
            return None
    return np.asarray(picture)


@cache
def _numbers() -> dict[str, int]:
    return {item.key: number for number, item in enumerate(embedded.photographs().items)}
