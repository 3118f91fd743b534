from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.features.pack import FeaturePack


@pytest.fixture
def folder(tmp_path: Path, pack: FeaturePack) -> str:
    """The folder of a small pack."""
    pack.write(tmp_path / "pack")
    return str(tmp_path / "pack")
