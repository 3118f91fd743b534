from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_command_is_installed_and_knows_its_version() -> None:
    command = Path(sys.executable).with_name("cosmic")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.1.0"
