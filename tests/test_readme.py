"""The README's Python really runs, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.tiny import class_folders, image

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
PRINTED = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)


def percent(line: str) -> float:
    found = re.search(r"([\d.]+)%", line)
    assert found
    return float(found[1])


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_engines_example_is_short_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    code = next(code for code in PYTHON if "superclass_pack" in code)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    printed = run(code, tmp_path)
    for told, said in zip(printed.splitlines(), PRINTED[0].splitlines(), strict=True):
        assert told.split(":")[0] == said.split(":")[0]
        # Another processor's last bits may turn an image or two.
        assert percent(told) == pytest.approx(percent(said), abs=0.5)


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.strip().splitlines()[-1][:30])
def test_every_example_runs(code: str, tmp_path: Path) -> None:
    image(1).save(tmp_path / "photo.jpg")
    run(code, tmp_path)


@pytest.mark.torch
def test_the_commands_of_the_readme_run_on_the_pack_of_its_example(tmp_path: Path) -> None:
    from tests.support.tiny_encoders import save_clip, save_dinov2

    run(next(code for code in PYTHON if 'write("mine")' in code), tmp_path)
    class_folders(tmp_path / "photos", ("cat", "dog", "owl"), 5)
    # Under the names of the real ones, as folders beside the images.
    save_clip(tmp_path / "openai/clip-vit-base-patch16")
    save_dinov2(tmp_path / "facebook/dinov2-small")
    commands = re.findall(r"^\$ (cosmic (?!serve).*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)
    assert len(commands) == 15
    for command in commands:
        words = [str(Path(sys.executable).with_name("cosmic")), *command.split()[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
