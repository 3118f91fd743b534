"""CLIP's modified ResNet against a plain rendering, transformers' text tower and, where it loads, open_clip."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders import make_clip, make_encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tiny.save_clip_resnet(tmp_path_factory.mktemp("resnet"))
    return made


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_archives_state_dicts_and_safetensors_give_the_same_features(folder: Path, tmp_path: Path) -> None:
    weights = tiny.clip_resnet_weights()
    wanted = make_clip(f"clip-resnet:{folder / 'model.safetensors'}")
    pixels = tiny.pixels_for(wanted)
    model = tiny.ClipResnet.from_weights(weights).requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace_module(model, {"forward": torch.zeros(1, 16, dtype=torch.int64)}, check_trace=False).save(
            tmp_path / "script.pt"
        )
    torch.save(weights, tmp_path / "plain.pt")
    torch.save({"state_dict": {**weights, "input_resolution": torch.tensor(64)}}, tmp_path / "nested.pt")
    counted = {name: value for name, value in weights.items() if not name.endswith("num_batches_tracked")}
    torch.save(counted, tmp_path / "uncounted.pth")
    tiny.write_clip_tokenizer(tmp_path)
    for name in ("script.pt", "plain.pt", "nested.pt", "uncounted.pth"):
        encoder = make_clip(f"clip-resnet:{tmp_path / name}")
        np.testing.assert_array_equal(encoder.encode(pixels), wanted.encode(pixels))
        assert encoder.fingerprint == wanted.fingerprint


def test_half_precision_files_run_in_full(folder: Path, tmp_path: Path) -> None:
    halves = {name: value.half() for name, value in tiny.clip_resnet_weights().items()}
    torch.save(halves, tmp_path / "half.pt")
    encoder = make_encoder(f"clip-resnet:{tmp_path / 'half.pt'}", kind="image")
    full = make_encoder(f"clip-resnet:{folder}", kind="image")
    pixels = tiny.pixels_for(encoder)
    assert (encoder.encode(pixels) * full.encode(pixels)).sum(-1).min() > 0.999


def test_files_that_are_something_else_are_refused(tmp_path: Path, folder: Path) -> None:
    weights = tiny.clip_resnet_weights()
    tiny.write_clip_tokenizer(tmp_path)

    def refused(message: str, file: str) -> None:
        with pytest.raises(EncoderError, match=message):
            make_encoder(f"clip-resnet:{tmp_path / file}")

    refused("no file or folder", "nothing.pt")
    refused("must hold one file of weights.*found none", "")
    (tmp_path / "a.safetensors").write_bytes(b"broken")
    refused("damaged or holds no weights", "a.safetensors")
    (tmp_path / "a.pt").write_bytes(b"broken")
    refused("damaged or holds no weights", "a.pt")
    torch.save({"weights": [1, 2]}, tmp_path / "a.pt")
    refused("no state dict", "a.pt")
    torch.save({"model": tiny.ClipResnet(tiny.TINY)}, tmp_path / "a.pt")  # a pickled object is never built
    refused("damaged or holds no weights", "a.pt")
    torch.save({"visual.proj": torch.zeros(2, 2)}, tmp_path / "a.pt")
    refused("CLIP ViT; use the family hf", "a.pt")
    torch.save({"fc.weight": torch.zeros(2, 2)}, tmp_path / "a.pt")
    refused("not the weights of a CLIP with a ResNet", "a.pt")
    torch.save({**weights, "visual.bn1.bias": torch.zeros(5)}, tmp_path / "a.pt")
    refused(r"'visual.bn1.bias' is \(5,\), expected \(4,\); 1 differ", "a.pt")
    torch.save({**weights, "ln_final.weight": torch.zeros(65)}, tmp_path / "a.pt")
    refused("no heads of 64 fit", "a.pt")
    torch.save({**weights, "extra": torch.zeros(5)}, tmp_path / "a.pt")
    refused("'extra' is .* expected none", "a.pt")
    torch.save(weights, tmp_path / "a.pt")
    refused("must hold one file of weights.*found a.pt, a.safetensors", "")
    (tmp_path / "vocab.json").unlink()
    refused("no tokenizer in .*hf download", "a.pt")


def test_a_tokenizer_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    weights = tiny.clip_resnet_weights()
    weights["token_embedding.weight"] = torch.zeros(600, 64)
    tiny.write_clip_tokenizer(tmp_path)
    torch.save(weights, tmp_path / "a.pt")
    with pytest.raises(EncoderError, match="ends sentences with the number 525, these weights with 599"):
        make_encoder(f"clip-resnet:{tmp_path}")


def test_features_are_those_of_open_clip(folder: Path) -> None:
    try:
        from open_clip.model import build_model_from_openai_state_dict
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"open_clip does not load here: {error}")
    # open_clip rounds such weights to half precision.
    halves = {name: value.half().float() for name, value in tiny.clip_resnet_weights().items()}
    theirs = build_model_from_openai_state_dict(dict(halves), cast_dtype=torch.float32).float().eval()
    ours = tiny.ClipResnet.from_weights(halves)
    numbers, ids = torch.randn(2, 3, 64, 64), torch.tensor([[524, 7, 8, 525, *[0] * 12]])
    with torch.inference_mode():
        np.testing.assert_allclose(ours.visual(numbers)[0], theirs.encode_image(numbers), atol=1e-4)
        np.testing.assert_allclose(ours(ids), theirs.encode_text(ids), atol=1e-4)
