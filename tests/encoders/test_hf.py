"""Models that transformers loads: features and tokens against transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders import ClipEncoder, make_clip, make_encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")

pytestmark = pytest.mark.torch
CLIPS = ("clip", "siglip")


def unit(tensor: Any) -> Any:
    return torch.nn.functional.normalize(tensor, dim=-1).numpy()


@pytest.mark.parametrize("name", tiny.HF)
def test_features_are_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    encoder = make_encoder(f"hf:{folders[name]}")
    model = transformers.AutoModel.from_pretrained(folders[name]).eval()
    pixels = tiny.pixels_for(encoder)
    numbers = torch.from_numpy(encoder.preprocessing.normalise(pixels))
    with torch.inference_mode():
        output = model.get_image_features(pixel_values=numbers) if name in CLIPS else model(pixel_values=numbers)
    features = encoder.encode(pixels)
    np.testing.assert_allclose(features, unit(output.pooler_output), atol=1e-6)
    assert features.dtype == np.float32
    assert features.shape == (4, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-6)
    assert (features @ features.T).min() < 0.999  # different images, different features
    np.testing.assert_array_equal(features, encoder.encode(pixels))
    assert encoder.encode(pixels[:0]).shape == (0, encoder.dim)
    if name not in CLIPS:
        np.testing.assert_array_equal(output.pooler_output, output.last_hidden_state[:, 0])
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


def test_an_encoder_without_texts_is_refused_as_a_clip(folders: dict[str, Path]) -> None:
    with pytest.raises(EncoderError, match="no text tower.*choose a CLIP or SigLIP"):
        make_clip(f"hf:{folders['dinov2']}")


def test_missing_and_damaged_models_are_refused(tmp_path: Path) -> None:
    def refused(message: str, spec: str = f"hf:{tmp_path}", **options: str) -> None:
        with pytest.raises(EncoderError, match=message):
            make_encoder(spec, **options)  # type: ignore[arg-type]

    refused("there is no folder '/no/such/folder': expected one with config.json", "hf:/no/such/folder")
    refused("neither a folder nor the name of a model", "hf:not a name")
    refused("has no config.json; put the model's files")
    (tmp_path / "config.json").write_text("{")
    refused("has no weights")
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    refused("cannot be read as JSON")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    refused("unknown model_type 'bert'.*Known: clip, dinov2, dinov2_with_registers, dinov3_vit, siglip")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "dinov2"}))
    refused("cannot be loaded, its files are damaged")
    refused("is a folder, so it has no revision 'main'", f"hf:{tmp_path},main")
    if not torch.cuda.is_available():
        refused("device 'cuda' is not available: torch .* finds cpu", device="cuda")


def test_parts_of_a_model_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    clip = tiny.save_clip(tmp_path / "clip")
    spec = f"hf:{clip}"
    settings = (clip / "preprocessor_config.json").read_text()
    (clip / "preprocessor_config.json").write_text(json.dumps({"size": 64, "crop_size": 64}))
    with pytest.raises(EncoderError, match="makes 64 x 64 pixels, its model takes images of 32 x 32"):
        make_encoder(spec)
    (clip / "preprocessor_config.json").write_text(settings)
    vocabulary = json.loads((clip / "vocab.json").read_text())
    swapped = {"<|startoftext|>": 525, "<|endoftext|>": 524}
    (clip / "vocab.json").write_text(json.dumps({**vocabulary, **swapped}))
    with pytest.raises(EncoderError, match="looks for the end token 525, its tokenizer writes 524"):
        make_encoder(spec)
    (clip / "vocab.json").unlink()
    with pytest.raises(EncoderError, match="has no tokenizer .*hf download openai/clip-vit-base-patch16 vocab.json"):
        make_encoder(spec)
    weights = load_file(clip / "model.safetensors")
    weights.pop("visual_projection.weight")
    save_file(weights, clip / "model.safetensors", {"format": "pt"})
    with pytest.raises(EncoderError, match="1 are missing or of another shape, the first 'visual_projection.weight'"):
        make_encoder(spec)
    siglip = tiny.save_siglip(tmp_path / "siglip")
    (siglip / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match="tokenizer.json' is missing, so no sentence can be encoded"):
        make_clip(f"hf:{siglip}")
    assert make_encoder(f"hf:{siglip}", kind="image").dim == 64
