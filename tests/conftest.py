from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cosmic_tta import METHODS
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from tests.support.paths import SHARED

settings.register_profile("ours", deadline=None, derandomize=True)
settings.load_profile("ours")


# Folders and files that say nothing more on the plain path: what they test comes before or after the engine.
PATHLESS = (
    "tests/cli/commands/test_datasets.py", "tests/cli/commands/test_extract.py", "tests/data/", "tests/encoders/",
    "tests/evaluation/test_temperature.py", "tests/evaluation/test_metrics.py", "tests/features/extraction/",
    "tests/reporting/",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before others are chosen by their marks."""
    for item in items:
        if item.nodeid.startswith(PATHLESS):
            item.add_marker(pytest.mark.pathless)


@pytest.fixture(autouse=True)
def registered_methods() -> Iterator[None]:
    """Remove the methods that a test registers, so that no later test meets them."""
    before = set(METHODS)
    yield
    for name in set(METHODS) - before:
        METHODS.remove(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the clone with `golden`, recorded answers of the published programs, and `packs`, real packs.

    Where one of the two is absent the test skips and names it.
    """
    for name in ("golden", "packs"):
        if not (SHARED / name).is_dir():
            pytest.skip(f"no folder {SHARED / name}")
    return SHARED


@pytest.fixture(scope="session")
def paper_source() -> str:
    """The source of the COSMIC paper; where its folder beside the clone is absent the test skips and says so."""
    if not (SHARED / "paper").is_dir():
        pytest.skip(f"no folder {SHARED / 'paper'}")
    return "\n".join(file.read_text(encoding="utf-8") for file in (SHARED / "paper").glob("*.txt"))


@pytest.fixture(scope="session")
def pack() -> FeaturePack:
    """A small generated pack with views and auxiliary features."""
    return superclass_pack(3, images=120, dim=32, aux_dim=24, views=4)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by playwright; where either is absent the test says so and skips."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def ray_here() -> None:
    """Ray, installed and able to start a cluster of this machine; where it is not, the test says so and skips."""
    pytest.importorskip("ray", reason="ray is not installed")
    code = "import ray; ray.init('local', num_cpus=1, include_dashboard=False); ray.get(ray.remote(lambda: 1).remote())"
    try:
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("ray does not start here within three minutes")
    if told.returncode:
        pytest.skip(f"ray does not start here: {told.stderr[-500:]}")
