from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from cosmic_tta.packs import FeaturePack
from cosmic_tta.synthetic import superclass_pack

settings.register_profile("ours", deadline=None, derandomize=True)
settings.load_profile("ours")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Recorded answers of the published programs, beside the project where they are at hand."""
    if not (SHARED / "golden").is_dir():
        pytest.skip(f"no recorded answers at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def pack() -> FeaturePack:
    """A small generated pack with views and auxiliary features."""
    return superclass_pack(3, images=120, dim=32, aux_dim=24, views=4)
