"""Encoders by name: what is wrong is said in one sentence, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from cosmic_tta import encoders
from cosmic_tta.cli import main
from cosmic_tta.encoders import FAMILIES, make_clip, make_encoder
from cosmic_tta.errors import CosmicError, EncoderError, InputError, UnknownNameError

HEAVY = ("torch", "transformers", "open_clip", "onnxruntime", "tokenizers", "huggingface_hub", "onnx")
torch_only = pytest.mark.skipif(find_spec("transformers") is None, reason="torch and transformers are not installed")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def test_importing_the_room_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, cosmic_tta, cosmic_tta.encoders, cosmic_tta.cli; "
        "print(' '.join({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize(
    ("spec", "kind", "told"),
    [
        ("hff:openai/clip", UnknownNameError, "unknown family of encoders 'hff': did you mean 'hf'"),
        ("clip-resnt:RN50.pt", UnknownNameError, "did you mean 'clip-resnet'"),
        ("openai/clip-vit-base-patch16", UnknownNameError, "Known: clip-resnet, hf, mini, onnx, open_clip"),
        ("hf", EncoderError, "'hf' names no model: expected hf:NAME"),
        ("hf:", EncoderError, "for example hf:openai/clip-vit-base-patch16"),
        ("open_clip:,openai", EncoderError, "incomplete: expected open_clip:MODEL"),
    ],
)
def test_a_wrong_name_is_told_kindly(spec: str, kind: type[CosmicError], told: str) -> None:
    with pytest.raises(kind, match=told):
        make_encoder(spec)


def test_wrong_options_are_told_kindly() -> None:
    with pytest.raises(UnknownNameError, match="unknown device 'gpu'"):
        make_encoder("onnx:x", device="gpu")
    with pytest.raises(UnknownNameError, match="unknown dtype 'float61': did you mean 'float16'"):
        make_encoder("onnx:x", dtype="float61")
    with pytest.raises(UnknownNameError, match="unknown kind of encoder 'aux'"):
        make_encoder("onnx:x", kind="aux")
    with pytest.raises(InputError, match="threads must be at least 1; given 0"):
        make_encoder("onnx:x", threads=0)


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, told in {
        "hf": r"pip install 'cosmic-tta\[torch\]'.*torch==2.13.0",
        "clip-resnet": r"pip install 'cosmic-tta\[torch\]'",
        "open_clip": r"pip install 'cosmic-tta\[open_clip\]'.*torchvision",
        "onnx": "pip install onnxruntime",
    }.items():
        absent = replace(FAMILIES[name], packages=("no_such_package",))
        monkeypatch.setattr(encoders, "FAMILIES", {name: absent})
        with pytest.raises(EncoderError, match=f"{name}:.*need no_such_package, not installed: {told}"):
            make_encoder(f"{name}:anything,tag")


def test_a_package_that_is_broken_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(encoders, "import_module", broken)
    with pytest.raises(EncoderError, match="cannot run here: operator torchvision::nms does not exist. Install anew"):
        make_encoder("onnx:anything")


@pytest.mark.torch
@torch_only
def test_missing_and_damaged_models_are_told_kindly(tmp_path: Path) -> None:
    import torch

    def refused(told: str, spec: str = f"hf:{tmp_path}", **options: str) -> None:
        with pytest.raises(EncoderError, match=told):
            make_encoder(spec, **options)  # type: ignore[arg-type]

    refused("there is no folder '/no/such/folder': expected one with config.json", "hf:/no/such/folder")
    refused("neither a folder nor a model's name", "hf:not a name")
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
        refused("device 'cuda' is not there: torch .* finds cpu", device="cuda")


@pytest.mark.torch
@torch_only
def test_parts_of_a_model_that_do_not_fit_are_told_kindly(tmp_path: Path) -> None:
    import tiny_encoders as tiny
    from safetensors.torch import load_file, save_file

    clip = tiny.save_clip(tmp_path / "clip")
    spec = f"hf:{clip}"
    settings = (clip / "preprocessor_config.json").read_text()
    (clip / "preprocessor_config.json").write_text(json.dumps({"size": 64, "crop_size": 64}))
    with pytest.raises(EncoderError, match="makes 64 x 64 pixels, its model takes pictures of 32 x 32"):
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


@pytest.mark.torch
@torch_only
@pytest.mark.parametrize("offline", ["1", "0"])
def test_a_model_that_is_not_in_the_cache_says_which_command_fetches_it(tmp_path: Path, offline: str) -> None:
    script = """
import socket, sys
calls = []
def refuse(*_, **__):
    calls.append(1)
    raise OSError("no network in this test")
socket.getaddrinfo = socket.create_connection = refuse
from cosmic_tta.encoders.hub import model_folder
from cosmic_tta.errors import EncoderError
try:
    model_folder("openai/clip-vit-base-patch16", None)
except EncoderError as error:
    print(len(calls), error)
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": offline}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    calls, _, told = done.stdout.partition(" ")
    assert "hf download openai/clip-vit-base-patch16" in told
    assert str(tmp_path / "home") in told
    assert ("HF_HUB_OFFLINE is set" in told) == (offline == "1")
    assert ("cannot be reached" in told) == (offline == "0")
    assert (int(calls) == 0) == (offline == "1")
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@torch_only
def test_a_model_in_the_cache_is_used_without_a_question_to_the_hub(tmp_path: Path) -> None:
    import tiny_encoders as tiny

    stored = tmp_path / "hub" / "models--someone--tiny"
    tiny.save_dinov2(stored / "snapshots" / "abc123")
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc123")
    script = """
import socket
def refuse(*_, **__):
    raise SystemExit("asked the network")
socket.getaddrinfo = socket.create_connection = refuse
from cosmic_tta.encoders.hub import model_folder
for revision in (None, "main"):
    print(model_folder("someone/tiny", revision).name)
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["abc123", "abc123"]


def test_the_command_lists_the_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "encoders.json"
    assert run("encoders", "--json", str(file)) == 0
    printed = capsys.readouterr().out
    rows = json.loads(file.read_text())
    assert [row["family"] for row in rows] == list(FAMILIES)
    for row in rows:
        assert row["pattern"] in printed
        assert row["runs"] == (not row["missing"])
    assert run("encoders", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == rows


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hff:x", "--out", "{}/out"], "unknown family of encoders"),
        (["onnx:{}/none", "--out", "{}/out"], "there is no folder"),
        (["hf:{}", "--out", "{}/out", "--opset", "3"], "--opset must lie between"),
        (["hf:{}", "--out", "{}"], "is there already"),
        (["hf:{}", "--out", "{}/out", "--json", "{}/none/x.json"], "cannot write"),
    ],
)
@pytest.mark.torch
@torch_only
def test_bad_input_to_the_export_ends_with_one_sentence_and_code_2(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export-onnx", *(word.replace("{}", str(tmp_path)) for word in words)) == 2
    printed = capsys.readouterr().err
    assert told in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.torch
@torch_only
def test_a_model_whose_cache_lacks_a_file_is_asked_for_and_used_all_the_same(tmp_path: Path) -> None:
    import tiny_encoders as tiny

    stored = tmp_path / "hub" / "models--someone--tiny"
    tiny.save_dinov2(stored / "snapshots" / "abc123")
    (stored / "snapshots" / "abc123" / "preprocessor_config.json").unlink()
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc123")
    script = """
import socket
calls = []
def refuse(*_, **__):
    calls.append(1)
    raise OSError("no network in this test")
socket.getaddrinfo = socket.create_connection = refuse
from cosmic_tta.encoders.hub import model_folder
print(model_folder("someone/tiny", None).name, len(calls) > 0)
"""
    for offline in ("0", "1"):
        environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": offline}
        environment.pop("HF_HUB_CACHE", None)
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout.split() == ["abc123", str(offline == "0")]
