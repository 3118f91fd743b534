"""Without Ray everything else works, and whoever asks for it is told how it comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cosmic_tta.cli import main
from cosmic_tta.synthetic import superclass_pack

BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class NoRay(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoRay())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "ray" else find(name, package)
from cosmic_tta.cli import main
main(sys.argv[1:])
"""


def without_ray(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED, *words], capture_output=True, text=True, check=False)


@pytest.mark.pathless
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "grid.toml"),
        ("extract", "pictures", "--clip", "mini:clip", "--out", "pack"),
        ("serve", "--port", "0"),
    ],
    ids=lambda words: words[0],
)
def test_the_install_command_is_told(words: tuple[str, ...]) -> None:
    done = without_ray(*words, "--engine", "ray")
    assert done.returncode == 2
    assert "pip install 'cosmic-tta[ray]'" in " ".join(done.stderr.split())


@pytest.mark.pathless
def test_a_local_sweep_needs_none(tmp_path: Path) -> None:
    superclass_pack(3, images=20, dim=8, aux_dim=8, views=1).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot"]\n')
    done = without_ray("sweep", str(tmp_path / "grid.toml"), "--workers", "0")
    assert done.returncode == 0, done.stderr


@pytest.mark.pathless
def test_what_is_no_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (("--engine", "rai"), "did you mean 'ray'?"),
        (("--address", "auto"), "--address is for --engine ray"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["sweep", "grid.toml", *words])
        assert stop.value.code == 2
        assert told in " ".join(capsys.readouterr().err.split())
