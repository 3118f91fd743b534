from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

torch_only = pytest.mark.skipif(find_spec("transformers") is None, reason="torch and transformers are not installed")


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
from cosmic_tta.encoders.hf_files import model_folder
from cosmic_tta.core.errors import EncoderError
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
    calls, _, message = done.stdout.partition(" ")
    assert "hf download openai/clip-vit-base-patch16" in message
    assert str(tmp_path / "home") in message
    assert ("HF_HUB_OFFLINE is set" in message) == (offline == "1")
    assert ("cannot be reached" in message) == (offline == "0")
    assert (int(calls) == 0) == (offline == "1")
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@torch_only
def test_a_model_in_the_cache_is_used_without_a_question_to_the_hub(tmp_path: Path) -> None:
    from tests.support import tiny_encoders as tiny

    stored = tmp_path / "hub" / "models--someone--tiny"
    tiny.save_dinov2(stored / "snapshots" / "abc123")
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc123")
    script = """
import socket
def refuse(*_, **__):
    raise SystemExit("asked the network")
socket.getaddrinfo = socket.create_connection = refuse
from cosmic_tta.encoders.hf_files import model_folder
for revision in (None, "main"):
    print(model_folder("someone/tiny", revision).name)
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["abc123", "abc123"]


@pytest.mark.torch
@torch_only
def test_a_model_whose_cache_lacks_a_file_is_asked_for_and_used_all_the_same(tmp_path: Path) -> None:
    from tests.support import tiny_encoders as tiny

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
from cosmic_tta.encoders.hf_files import model_folder
print(model_folder("someone/tiny", None).name, len(calls) > 0)
"""
    for offline in ("0", "1"):
        environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": offline}
        environment.pop("HF_HUB_CACHE", None)
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout.split() == ["abc123", str(offline == "0")]
