from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import run


def test_methods_as_json_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("methods", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows["cosmic"]) >= {"name", "presets", "params", "needs"}
    assert rows["cosmic"]["presets"] == ["default", "official", "paper"]
    assert rows["cosmic"]["params"]["shots"]["default"] == 8
    assert rows["cosmic"]["params"]["graph"]["choices"] == ["threshold", "degree", "degeneracy"]
    assert rows["tip_adapter"]["needs"] == ["support"]
    assert run("methods") == 0
    assert "cosmic" in capsys.readouterr().out


@pytest.mark.parametrize(("switch", "told"), [("auto", "compiled kernel|plain path"), ("off", "plain path")])
def test_check_alone_says_which_path_runs(switch: str, told: str) -> None:
    command = [sys.executable, "-m", "cosmic_tta", "check"]
    environment = {**os.environ, "COSMIC_TTA_KERNEL": switch}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert re.search(told, done.stdout)


def test_check_passes_a_valid_pack_and_fails_a_bad_one(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", folder) == 0
    assert "valid; 120 images" in capsys.readouterr().out
    (Path(folder) / "clip.npy").write_bytes(b"")
    assert run("check", folder, "--json", str(tmp_path / "out.json")) == 2
    assert "truncated" in capsys.readouterr().err
    assert len(json.loads((tmp_path / "out.json").read_text())[0]["problems"]) == 1
