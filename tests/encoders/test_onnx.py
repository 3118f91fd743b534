"""Exported encoders: near to torch, runnable without it, and refused when they are damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders import ClipEncoder, make_clip, make_encoder
from tests.encoders.conftest import EXPORTED

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
tiny = pytest.importorskip("tests.support.tiny_encoders")
export = pytest.importorskip("cosmic_tta.encoders.onnx_export")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", EXPORTED)
def test_graphs_give_what_torch_gives(exported: Any, name: str) -> None:
    spec, folder, report = exported(name)
    theirs, ours = make_encoder(spec), make_encoder(f"onnx:{folder}", threads=1)
    assert ours.dim == theirs.dim
    assert ours.preprocessing == theirs.preprocessing
    for count in (1, 5):  # the batch may have any size
        pixels = tiny.pixels_for(theirs, count)
        features = ours.encode(pixels)
        assert (features * theirs.encode(pixels)).sum(-1).min() > 0.9999
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(features, ours.encode(pixels))
    tokens, wanted = ours.tokens(pixels), theirs.tokens(pixels)
    assert tokens.patches.shape == wanted.patches.shape
    assert (tokens.patches * wanted.patches).sum(-1).min() > 0.9999
    np.testing.assert_allclose(tokens.summary, features, atol=1e-6)
    assert ours.encode(pixels[:0]).shape == (0, ours.dim)
    assert report.image.worst > 0.9999
    if name == "dinov2":
        assert report.text is None
        assert not isinstance(ours, ClipEncoder)
        return
    assert isinstance(theirs, ClipEncoder)
    assert isinstance(ours, ClipEncoder)
    assert report.text.worst > 0.9999
    assert ours.logit_scale == pytest.approx(theirs.logit_scale)
    assert (ours.encode_texts(tiny.SAMPLES) * theirs.encode_texts(tiny.SAMPLES)).sum(-1).min() > 0.9999
    assert ours.encode_texts([]).shape == (0, ours.dim)
    assert not isinstance(make_encoder(f"onnx:{folder}", kind="image"), ClipEncoder)


def test_an_exported_clip_runs_with_torch_and_transformers_forbidden(exported: Any, tmp_path: Path) -> None:
    spec, folder, _ = exported("clip")
    encoder = make_clip(spec)
    pixels = tiny.pixels_for(encoder)
    np.save(tmp_path / "pixels.npy", pixels)
    script = f"""
import sys
for name in ("torch", "transformers", "tokenizers", "huggingface_hub", "onnx"):
    sys.modules[name] = None
import numpy as np
from cosmic_tta.encoders import make_clip
encoder = make_clip("onnx:{folder}")
np.save({str(tmp_path / "features.npy")!r}, encoder.encode(np.load({str(tmp_path / "pixels.npy")!r})))
np.save({str(tmp_path / "texts.npy")!r}, encoder.encode_texts(["a photo of a cat."]))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (np.load(tmp_path / "features.npy") * encoder.encode(pixels)).sum(-1).min() > 0.9999
    texts = encoder.encode_texts(["a photo of a cat."])
    assert (np.load(tmp_path / "texts.npy") * texts).sum(-1).min() > 0.9999


def test_damaged_folders_are_refused(exported: Any, tmp_path: Path) -> None:
    _, folder, _ = exported("clip")
    damaged = tmp_path / "damaged"

    def refused(message: str, **options: Any) -> None:
        with pytest.raises(EncoderError, match=message):
            make_encoder(f"onnx:{damaged}", **options)
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(folder, damaged)

    def rewrite(**changes: Any) -> None:
        head = json.loads((damaged / "encoder.json").read_text())
        (damaged / "encoder.json").write_text(json.dumps({**head, **changes}))

    refused("there is no folder .*cosmic export-onnx")
    (damaged / "encoder.json").unlink()
    refused("has no encoder.json")
    (damaged / "encoder.json").write_text("{")
    refused("cannot be read as JSON")
    rewrite(format=7)
    refused("has the format 7")
    rewrite(dim="wide")
    refused("'dim' must be a int")
    rewrite(text=[])
    refused("'text' must be null")
    rewrite(text={"context": 16, "tokenizer": "other"})
    refused("must be one of 'clip', 'file', 'words'")
    rewrite(preprocessing={"size": [1, 2]})
    refused("its preprocessing is invalid")
    (damaged / "text.onnx").unlink()
    refused("text.onnx' is missing")
    (damaged / "image.onnx").write_bytes(b"broken")
    refused("damaged or not those")
    (damaged / "image.onnx").write_bytes(b"broken")
    rewrite(fingerprint=export.fingerprint_of(damaged))
    refused("cannot be run by ONNX Runtime")
    (damaged / "vocab.json").unlink()
    refused("tokenizer in .* is missing or damaged")
    refused("dtype 'float16' cannot be chosen for ONNX graphs", dtype="float16")
    refused("device 'mps' is not available", device="mps")
