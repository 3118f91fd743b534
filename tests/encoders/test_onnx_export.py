"""Exports of encoders: how similar they are to torch, and what an export that fails leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import EncoderError, InputError
from cosmic_tta.encoders import make_clip, make_encoder

onnx = pytest.importorskip("onnx")
tiny = pytest.importorskip("tests.support.tiny_encoders")
export = pytest.importorskip("cosmic_tta.encoders.onnx_export")
pytestmark = pytest.mark.torch


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
    image = (ours.encode(pixels) * theirs.encode(pixels)).sum(-1).min()
    text = (ours.encode_texts(tiny.SAMPLES) * theirs.encode_texts(tiny.SAMPLES)).sum(-1).min()
    print(f"{name} int8: worst cosine {image:.5f} for images, {text:.5f} for texts")
    assert image > 0.98
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


def test_the_command_exports_and_reports_the_cosine(
    exported: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, _, _ = exported("dinov2")
    out, report_file = tmp_path / "folder", tmp_path / "report.json"
    with pytest.raises(SystemExit) as stop:
        main(["export-onnx", spec, "--out", str(out), "--int8", "--json", str(report_file)])
    assert not stop.value.code
    printed = capsys.readouterr()
    assert "mean cosine to torch" in printed.out
    assert f"onnx:{out}" in printed.out
    report = json.loads(report_file.read_text())
    assert report["precision"] == "int8"
    assert 0.98 < report["image"]["worst"] <= report["image"]["mean"] <= 1.001
    assert report["text"] is None
    assert make_encoder(f"onnx:{out}").dim == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "report.json"]


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
    with pytest.raises(EncoderError, match="is not an encoder that torch runs"):
        export.export_onnx(f"onnx:{folder}", tmp_path / "out")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hff:x", "--out", "{}/out"], "unknown family of encoders"),
        (["onnx:{}/none", "--out", "{}/out"], "there is no folder"),
        (["hf:{}", "--out", "{}/out", "--opset", "3"], "--opset must lie between"),
        (["hf:{}", "--out", "{}"], "is there already"),
        (["hf:{}", "--out", "{}/out", "--json", "{}/none/x.json"], "cannot write"),
    ],
)
@pytest.mark.torch
def test_bad_input_to_the_export_ends_with_one_sentence_and_code_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export-onnx", *(word.replace("{}", str(tmp_path)) for word in words)) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []
