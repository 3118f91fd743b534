from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.encoders import ClipEncoder, make_clip, make_encoder
from cosmic_tta.encoders.base import checked_pixels


def test_wrong_pixels_and_texts_are_refused() -> None:
    encoder = make_clip("mini:clip")
    for pixels in (np.zeros((1, 31, 32, 3), np.uint8), np.zeros((1, 32, 32, 3), np.float32), [[1]]):
        with pytest.raises(ValueError, match=r"uint8 \[B, 32, 32, 3\]"):
            encoder.encode(pixels)  # type: ignore[arg-type]
    for texts in ("a cat", [3], None):
        with pytest.raises(ValueError, match="list of sentences"):
            encoder.encode_texts(texts)  # type: ignore[arg-type]


def test_pixels_become_contiguous_and_writable() -> None:
    preprocessing = make_encoder("mini:dino").preprocessing
    strided = np.zeros((4, 32, 64, 3), np.uint8)[:, :, ::2]
    strided.flags.writeable = False
    checked = checked_pixels(strided, preprocessing)
    assert checked.flags.c_contiguous
    assert checked.flags.writeable


def test_only_encoders_with_a_text_tower_are_clips() -> None:
    assert isinstance(make_encoder("mini:clip"), ClipEncoder)
    assert not isinstance(make_encoder("mini:dino"), ClipEncoder)
    assert not isinstance(make_encoder("mini:clip", kind="image"), ClipEncoder)
