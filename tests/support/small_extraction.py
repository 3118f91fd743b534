"""A small extraction, whole or stopped, for the tests around it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.features.extraction.extract import Extraction, extract
from tests.support.tiny import TinyEncoder, class_folders

CLASSES = ("cat", "dog", "owl")


def data(root: Path, each: int = 9) -> Dataset:
    if not root.exists():
        class_folders(root, CLASSES, each)
    files = sorted(root.rglob("*.jpg"))
    items = tuple(
        Item(str(file.relative_to(root)), CLASSES.index(file.parent.name), partial(Path, file)) for file in files
    )
    return Dataset("small", "test", CLASSES, items, source="made by a test")


def run(dataset: Dataset, out: Path, **settings: Any) -> Extraction:
    given: dict[str, Any] = {"clip": TinyEncoder(), "aux": TinyEncoder(5, 12, "tiny:aux"), "views": RandomViews(3)}
    given |= {"texts": [[f"a {name}"] for name in CLASSES], "batch": 8} | settings
    return extract(dataset, given.pop("clip"), given.pop("aux"), out, **given)


def contents(pack: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in pack.iterdir()}


class Stopping(TinyEncoder):
    """Ends the run after a number of batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def encode(self, pixels: Any) -> Any:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().encode(pixels)
