"""The command `cosmic`, run in this process."""

from __future__ import annotations

import pytest

from cosmic_tta.cli.app import main


def run(*words: str) -> int:
    """Run the command and return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)
