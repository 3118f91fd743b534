from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.encoders import ClipEncoder, make_clip, make_encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_gives_unit_float32_rows_near_the_full_ones(folders: dict[str, Path], dtype: str) -> None:
    full, half = (make_clip(f"hf:{folders['clip']}", dtype=dtype) for dtype in ("auto", dtype))
    pixels = tiny.pixels_for(full)
    for one, other in (
        (full.encode(pixels), half.encode(pixels)),
        (full.encode_texts(tiny.SAMPLES), half.encode_texts(tiny.SAMPLES)),
    ):
        assert other.dtype == np.float32
        assert (one * other).sum(-1).min() > 0.99


def test_a_clip_used_for_images_alone_needs_no_tokenizer(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tiny.save_clip(tmp_path / "bare")
    (folder / "vocab.json").unlink()
    encoder = make_encoder(f"hf:{folder}", kind="image")
    whole = make_clip(f"hf:{folders['clip']}")
    assert not isinstance(encoder, ClipEncoder)
    assert isinstance(whole, ClipEncoder)
    pixels = tiny.pixels_for(encoder)
    np.testing.assert_array_equal(encoder.encode(pixels), whole.encode(pixels))
    assert encoder.fingerprint == whole.fingerprint
