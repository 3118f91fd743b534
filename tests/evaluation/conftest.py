from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.evaluation.jobs import fingerprint, open_pack
from cosmic_tta.features.pack import FeaturePack
from tests.support.small_grid import GRID


@pytest.fixture
def folder(tmp_path: Path, pack: FeaturePack) -> Path:
    """A folder with a pack and a grid file that names it."""
    open_pack.cache_clear()
    fingerprint.cache_clear()
    pack.write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path
