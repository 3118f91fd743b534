"""The images of a pack's rows as the encoders saw them; only those of the embedded photographs are available."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.data.datasets import embedded
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.features.pack import FeaturePack

SHIFT = "shift"  # key of a pack's provenance
Pixels = NDArray[np.uint8]  # [height, width, 3]


def shift_record(shift: Corruption) -> dict[str, object]:
    """Return the provenance of a shift, so that the images can be shown as the encoders saw them."""
    return {SHIFT: asdict(shift)}


def image_of_row(pack: FeaturePack, index: int) -> Pixels | None:
    """Return the image of a row, or None if it is not available."""
    if pack.source != embedded.SOURCE or not pack.keys:
        return None
    number = _numbers().get(pack.keys[index])
    if number is None:
        return None
    image = open_image(embedded.read(number))
    shift = pack.provenance.get(SHIFT)
    if isinstance(shift, dict):
        try:
            image = Corruption(**shift)(image, pack.keys[index])
        except (CosmicError, TypeError):  # a shift of another version
            return None
    return np.asarray(image)


@cache
def _numbers() -> dict[str, int]:
    return {item.key: number for number, item in enumerate(embedded.photographs().items)}
