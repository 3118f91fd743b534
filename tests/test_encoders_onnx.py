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

from cosmic_tta.cli import main
from cosmic_tta.encoders import ClipEncoder, make_clip, make_encoder
from cosmic_tta.errors import EncoderError, InputError

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
tiny = pytest.importorskip("tiny_encoders")
export = pytest.importorskip("cosmic_tta.encoders.export")
pytestmark = pytest.mark.torch

MODELS = {
    "clip": ("hf", tiny.save_clip),
    "siglip": ("hf", tiny.save_siglip),
    "dinov2": ("hf", tiny.save_dinov2),
    "clip-resnet": ("clip-resnet", lambda folder: tiny.save_clip_resnet(folder, tiny.TINIEST)),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Export a model when it is first asked for, and keep it: name → (spec, folder, report)."""
    root = tmp_path_factory.mktemp("onnx")
    made: dict[str, tuple[str, Path, Any]] = {}

    def get(name: str) -> tuple[str, Path, Any]:
        if name not in made:
            family, save = MODELS[name]
            spec = f"{family}:{save(root / name)}"
            made[name] = (spec, root / f"{name}.onnx", export.export_onnx(spec, root / f"{name}.onnx"))
        return made[name]

    return get


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize("name", ["clip", "siglip", "clip-resnet"])
def test_int8_graphs_stay_near(exported: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, folder, _ = exported(name)
    target = tmp_path / "int8"
    shutil.copytree(folder, target)
    for graph in ("image.onnx", "text.onnx"):
        export._quantise(onnx.load(folder / graph), target / graph)
    head = json.loads((target / "encoder.json").read_text())
    head["fingerprint"] = export.fingerprint_of(target)
    (target / "encoder.json").write_text(json.dumps(head))
    theirs, ours = make_clip(spec), make_clip(f"onnx:{target}")
    pixels = tiny.pixels_for(theirs, 8)
    picture = (ours.encode(pixels) * theirs.encode(pixels)).sum(-1).min()
    text = (ours.encode_texts(tiny.SAMPLES) * theirs.encode_texts(tiny.SAMPLES)).sum(-1).min()
    print(f"{name} int8: worst cosine {picture:.5f} for pictures, {text:.5f} for texts")
    assert picture > 0.98
    assert text > 0.98
    assert (target / "text.onnx").stat().st_size < 0.8 * (folder / "text.onnx").stat().st_size


def test_a_matrix_that_two_nodes_read_is_quantised_once_for_each(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    make = onnx.helper
    numbers = onnx.TensorProto.FLOAT
    nodes = [
        make.make_node("Gemm", ["x", "w"], ["y"], transB=1),
        make.make_node("Transpose", ["w"], ["turned"]),
        make.make_node("MatMul", ["x", "turned"], ["z"]),
    ]
    wanted = [make.make_tensor_value_info(name, numbers, ["batch", 5]) for name in "yz"]
    given = [make.make_tensor_value_info("x", numbers, ["batch", 8])]
    graph = make.make_graph(nodes, "shared", given, wanted, [onnx.numpy_helper.from_array(weight, "w")])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 20)], ir_version=10)
    export._quantise(model, tmp_path / "int8.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "int8.onnx")
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    for answer in session.run(None, {"x": x}):
        np.testing.assert_allclose(answer, x @ weight.T, atol=0.2)


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


def test_the_command_exports_and_tells_how_near_it_is(
    exported: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, _, _ = exported("dinov2")
    out, told = tmp_path / "folder", tmp_path / "told.json"
    with pytest.raises(SystemExit) as stop:
        main(["export-onnx", spec, "--out", str(out), "--int8", "--json", str(told)])
    assert not stop.value.code
    printed = capsys.readouterr()
    assert "mean cosine to torch" in printed.out
    assert f"onnx:{out}" in printed.out
    report = json.loads(told.read_text())
    assert report["precision"] == "int8"
    assert 0.98 < report["image"]["worst"] <= report["image"]["mean"] <= 1.001
    assert report["text"] is None
    assert make_encoder(f"onnx:{out}").dim == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "told.json"]


def test_an_export_that_fails_leaves_nothing_behind(
    exported: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, folder, _ = exported("dinov2")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr("torch.onnx.export", broken)
    with pytest.raises(EncoderError, match="cannot export it: no such operator"):
        export.export_onnx(spec, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="is there already"):
        export.export_onnx(spec, tmp_path)
    with pytest.raises(InputError, match="--opset must lie between"):
        export.export_onnx(spec, tmp_path / "out", opset=3)
    with pytest.raises(EncoderError, match="no encoder that torch runs"):
        export.export_onnx(f"onnx:{folder}", tmp_path / "out")


def test_damaged_folders_are_refused(exported: Any, tmp_path: Path) -> None:
    _, folder, _ = exported("clip")
    spoiled = tmp_path / "spoiled"

    def refused(told: str, **options: Any) -> None:
        with pytest.raises(EncoderError, match=told):
            make_encoder(f"onnx:{spoiled}", **options)
        shutil.rmtree(spoiled, ignore_errors=True)
        shutil.copytree(folder, spoiled)

    def rewrite(**changes: Any) -> None:
        head = json.loads((spoiled / "encoder.json").read_text())
        (spoiled / "encoder.json").write_text(json.dumps({**head, **changes}))

    refused("there is no folder .*cosmic export-onnx")
    (spoiled / "encoder.json").unlink()
    refused("has no encoder.json")
    (spoiled / "encoder.json").write_text("{")
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
    refused("its preprocessing is not one of ours")
    (spoiled / "text.onnx").unlink()
    refused("text.onnx' is missing")
    (spoiled / "image.onnx").write_bytes(b"broken")
    refused("damaged or not those")
    (spoiled / "image.onnx").write_bytes(b"broken")
    rewrite(fingerprint=export.fingerprint_of(spoiled))
    refused("cannot be run by ONNX Runtime")
    (spoiled / "vocab.json").unlink()
    refused("tokenizer in .* is missing or damaged")
    refused("dtype 'float16' is not for ONNX graphs", dtype="float16")
    refused("device 'mps' is not there", device="mps")
