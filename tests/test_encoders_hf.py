"""Models that transformers loads: features and tokens against transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.encoders import ClipEncoder, auto_batch, make_clip, make_encoder
from cosmic_tta.errors import EncoderError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_encoders")

pytestmark = pytest.mark.torch
CLIPS = ("clip", "siglip")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: save(root / name) for name, save in tiny.HF.items()}


def unit(tensor: Any) -> Any:
    return torch.nn.functional.normalize(tensor, dim=-1).numpy()


@pytest.mark.parametrize("name", tiny.HF)
def test_features_are_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    encoder = make_encoder(f"hf:{folders[name]}")
    model = transformers.AutoModel.from_pretrained(folders[name]).eval()
    pixels = tiny.pixels_for(encoder)
    numbers = torch.from_numpy(encoder.preprocessing.normalise(pixels))
    with torch.inference_mode():
        seen = model.get_image_features(pixel_values=numbers) if name in CLIPS else model(pixel_values=numbers)
    features = encoder.encode(pixels)
    np.testing.assert_allclose(features, unit(seen.pooler_output), atol=1e-6)
    assert features.dtype == np.float32
    assert features.shape == (4, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-6)
    assert (features @ features.T).min() < 0.999  # different pictures, different features
    np.testing.assert_array_equal(features, encoder.encode(pixels))
    assert encoder.encode(pixels[:0]).shape == (0, encoder.dim)
    if name not in CLIPS:
        np.testing.assert_array_equal(seen.pooler_output, seen.last_hidden_state[:, 0])
        assert not isinstance(encoder, ClipEncoder)


@pytest.mark.parametrize("name", tiny.HF)
def test_patch_tokens_lie_on_their_grid_without_class_token_and_registers(folders: dict[str, Path], name: str) -> None:
    encoder = make_encoder(f"hf:{folders[name]}")
    model = transformers.AutoModel.from_pretrained(folders[name]).eval()
    pixels = tiny.pixels_for(encoder, 2)
    numbers = torch.from_numpy(encoder.preprocessing.normalise(pixels))
    with torch.inference_mode():
        tower = model.vision_model if name in CLIPS else model
        hidden = tower(pixel_values=numbers).last_hidden_state
        if name == "clip":
            hidden = model.visual_projection(model.vision_model.post_layernorm(hidden))
    rows = encoder.preprocessing.size[0] // (14 if name.startswith("dinov2") else 8)
    tokens = encoder.tokens(pixels)
    patches = unit(hidden[:, -rows * rows :]).reshape(2, rows, rows, -1)
    np.testing.assert_allclose(tokens.patches, patches, atol=1e-6)
    np.testing.assert_allclose(tokens.summary, encoder.encode(pixels), atol=1e-6)


def test_texts_of_clip_are_those_of_transformers(folders: dict[str, Path]) -> None:
    encoder = make_clip(f"hf:{folders['clip']}")
    model = transformers.CLIPModel.from_pretrained(folders["clip"]).eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folders["clip"])
    given = tokenizer(tiny.SAMPLES, padding="max_length", max_length=16, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        wanted = model.get_text_features(**given).pooler_output
    features = encoder.encode_texts(tiny.SAMPLES)
    np.testing.assert_allclose(features, unit(wanted), atol=1e-6)
    np.testing.assert_array_equal(features, encoder.encode_texts(tiny.SAMPLES))
    assert encoder.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()))
    assert encoder.encode_texts([]).shape == (0, 48)
    many = encoder.encode_texts(["a photo of a cat."] * 300)  # more than one pass
    assert many.shape == (300, 48)
    np.testing.assert_allclose(many, np.tile(features[:1], (300, 1)), atol=1e-6)


def test_texts_of_siglip_are_lower_case_without_punctuation_and_padded_to_the_full_context(
    folders: dict[str, Path],
) -> None:
    encoder = make_clip(f"hf:{folders['siglip']}")
    model = transformers.SiglipModel.from_pretrained(folders["siglip"]).eval()
    rows = [[3, 4, 5, 3, 6, 1], [3, 7, 1]]  # "a photo of a cat" and "a dog" by the pieces' numbers
    ids = torch.tensor([row + [1] * (12 - len(row)) for row in rows])
    with torch.inference_mode():
        wanted = model.get_text_features(input_ids=ids).pooler_output
    np.testing.assert_allclose(encoder.encode_texts(["A photo of a Cat!", "a dog."]), unit(wanted), atol=1e-6)
    assert encoder.encode_texts(["photo " * 50]).shape == (1, 64)
    assert encoder.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()))


def test_a_clip_used_for_pictures_alone_needs_no_tokenizer(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tiny.save_clip(tmp_path / "bare")
    (folder / "vocab.json").unlink()
    encoder = make_encoder(f"hf:{folder}", kind="image")
    whole = make_clip(f"hf:{folders['clip']}")
    assert not isinstance(encoder, ClipEncoder)
    assert isinstance(whole, ClipEncoder)
    pixels = tiny.pixels_for(encoder)
    np.testing.assert_array_equal(encoder.encode(pixels), whole.encode(pixels))
    assert encoder.fingerprint == whole.fingerprint


def test_a_fingerprint_follows_the_weights_and_their_numbers(folders: dict[str, Path], tmp_path: Path) -> None:
    one = make_encoder(f"hf:{folders['dinov2']}")
    again = make_encoder(f"hf:{tiny.save_dinov2(tmp_path / 'again')}")
    model = transformers.AutoModel.from_pretrained(folders["dinov2"])
    with torch.no_grad():
        model.layernorm.bias[3] += 1e-3
    model.save_pretrained(tmp_path / "other")
    other = make_encoder(f"hf:{tmp_path / 'other'}")
    half = make_encoder(f"hf:{folders['dinov2']}", dtype="bfloat16")
    assert one.fingerprint == again.fingerprint
    assert len({one.fingerprint, other.fingerprint, half.fingerprint}) == 3
    assert len(one.fingerprint) == 32


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


def test_batches_have_a_fixed_size(folders: dict[str, Path]) -> None:
    encoder = make_encoder(f"hf:{folders['dinov2']}", device="cpu")
    assert auto_batch(encoder) == 64
    assert auto_batch(encoder, "cuda") == 256
    assert auto_batch(encoder, "auto") == 64


def test_wrong_pixels_and_texts_are_refused(folders: dict[str, Path]) -> None:
    encoder = make_clip(f"hf:{folders['clip']}")
    for pixels in (np.zeros((1, 31, 32, 3), np.uint8), np.zeros((1, 32, 32, 3), np.float32), [[1]]):
        with pytest.raises(ValueError, match=r"uint8 \[B, 32, 32, 3\]"):
            encoder.encode(pixels)  # type: ignore[arg-type]
    for texts in ("a cat", [3], None):
        with pytest.raises(ValueError, match="list of sentences"):
            encoder.encode_texts(texts)  # type: ignore[arg-type]


def test_an_encoder_without_texts_is_refused_as_a_clip(folders: dict[str, Path]) -> None:
    with pytest.raises(EncoderError, match="no text tower.*choose a CLIP or SigLIP"):
        make_clip(f"hf:{folders['dinov2']}")
