"""Without Ray everything else works, and `--engine ray` says how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cosmic_tta import distributed
from cosmic_tta.cli.app import main
from cosmic_tta.features.synthetic import superclass_pack

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
from cosmic_tta.cli.app import main
main(sys.argv[1:])
"""


def without_ray(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED, *words], capture_output=True, text=True, check=False)


@pytest.mark.pathless
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "grid.toml"),
        ("extract", "images", "--clip", "mini:clip", "--out", "pack"),
        ("serve", "--port", "0"),
    ],
    ids=lambda words: words[0],
)
def test_the_error_has_the_install_command(words: tuple[str, ...]) -> None:
    done = without_ray(*words, "--engine", "ray")
    assert done.returncode == 2
    assert "pip install 'cosmic-tta[ray]'" in " ".join(done.stderr.split())


@pytest.mark.pathless
def test_a_local_sweep_needs_no_ray(tmp_path: Path) -> None:
    superclass_pack(3, images=20, dim=8, aux_dim=8, views=1).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot"]\n')
    done = without_ray("sweep", str(tmp_path / "grid.toml"), "--workers", "0")
    assert done.returncode == 0, done.stderr


@pytest.mark.pathless
def test_a_wrong_engine_or_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (("--engine", "rai"), "did you mean 'ray'?"),
        (("--address", "auto"), "--address is for --engine ray"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["sweep", "grid.toml", *words])
        assert stop.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.pathless
def test_the_package_imports_ray_when_a_name_is_first_used() -> None:
    code = "import sys, cosmic_tta.distributed as package; package.require; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = distributed.no_such_name


@pytest.mark.scale
def test_every_public_name_exists() -> None:
    pytest.importorskip("ray")
    for name in distributed.__all__:
        assert getattr(distributed, name).__name__ == name
