"""Encoders by name: what is wrong is said in one sentence, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import CosmicError, EncoderError, InputError, UnknownNameError
from cosmic_tta.encoders import FAMILIES, auto_batch, make_encoder, registry

HEAVY = ("torch", "transformers", "open_clip", "onnxruntime", "tokenizers", "huggingface_hub", "onnx")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, cosmic_tta, cosmic_tta.encoders.registry, cosmic_tta.cli.app; "
        "print(' '.join({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("hff:openai/clip", UnknownNameError, "unknown family of encoders 'hff': did you mean 'hf'"),
        ("clip-resnt:RN50.pt", UnknownNameError, "did you mean 'clip-resnet'"),
        ("openai/clip-vit-base-patch16", UnknownNameError, "Known: clip-resnet, hf, mini, onnx, open_clip"),
        ("hf", EncoderError, "'hf' names no model: expected hf:NAME"),
        ("hf:", EncoderError, "for example hf:openai/clip-vit-base-patch16"),
        ("open_clip:,openai", EncoderError, "incomplete: expected open_clip:MODEL"),
    ],
)
def test_a_wrong_name_is_refused(spec: str, kind: type[CosmicError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make_encoder(spec)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown device 'gpu'"):
        make_encoder("onnx:x", device="gpu")
    with pytest.raises(UnknownNameError, match="unknown dtype 'float61': did you mean 'float16'"):
        make_encoder("onnx:x", dtype="float61")
    with pytest.raises(UnknownNameError, match="unknown kind of encoder 'aux'"):
        make_encoder("onnx:x", kind="aux")
    with pytest.raises(InputError, match="threads must be at least 1; given 0"):
        make_encoder("onnx:x", threads=0)


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in {
        "hf": r"pip install 'cosmic-tta\[torch\]'.*torch==2.13.0",
        "clip-resnet": r"pip install 'cosmic-tta\[torch\]'",
        "open_clip": r"pip install 'cosmic-tta\[open_clip\]'.*torchvision",
        "onnx": "pip install onnxruntime",
    }.items():
        absent = replace(FAMILIES[name], packages=("no_such_package",))
        monkeypatch.setattr(registry, "FAMILIES", {name: absent})
        with pytest.raises(EncoderError, match=f"{name}:.*need no_such_package, which is not installed.*: {message}"):
            make_encoder(f"{name}:anything,tag")


def test_a_package_that_is_broken_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(registry, "import_module", broken)
    with pytest.raises(EncoderError, match="cannot run here: operator torchvision::nms does not exist. Install again"):
        make_encoder("onnx:anything")


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


def test_batches_have_a_fixed_size() -> None:
    encoder = make_encoder("mini:dino", device="cpu")
    assert auto_batch(encoder) == 64
    assert auto_batch(encoder, "cuda") == 256
    assert auto_batch(encoder, "auto") == 64
