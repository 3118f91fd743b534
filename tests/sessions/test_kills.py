"""A short version of `make torture`: a process with sessions is killed thirty times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.pathless


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_thirty_kills_lose_nothing(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "kill_sessions.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--kills", "30", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 kills" in done.stdout
    assert ": 0 lost, 0 that do not open, 0 that differ" in done.stdout
