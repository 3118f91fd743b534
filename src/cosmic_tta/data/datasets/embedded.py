"""The photographs that ship with the package: 2,000 test images of CIFAR-10, 200 of each class."""

from __future__ import annotations

import io
import json
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.data.datasets.base import Dataset, Item

NAME = "mini"
EDGE = 32
SOURCE = "CIFAR-10 (A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009), test set"


def photographs() -> Dataset:
    """Return the embedded photographs, in the order of CIFAR-10's test set."""
    metadata = json.loads((_folder() / "photographs.json").read_text(encoding="utf-8"))
    labels = enumerate(metadata["labels"])
    items = tuple(Item(f"{number:04}.png", label, partial(read, number)) for number, label in labels)
    return Dataset(NAME, "test", tuple(metadata["classes"]), items, source=SOURCE)


def read(number: int) -> bytes:
    """Return one photograph as a PNG."""
    file = io.BytesIO()
    Image.fromarray(_tiles()[number]).save(file, "PNG", compress_level=1)
    return file.getvalue()


@cache
def _tiles() -> NDArray[np.uint8]:
    """Return the photographs, which are tiles of one image: [N, EDGE, EDGE, 3]."""
    sheet = np.asarray(Image.open(_folder() / "photographs.png"))
    columns = sheet.shape[1] // EDGE
    tiles = sheet.reshape(-1, EDGE, columns, EDGE, 3).swapaxes(1, 2)
    return tiles.reshape(-1, EDGE, EDGE, 3)


def _folder() -> Path:
    return Path(str(files("cosmic_tta"))) / "data" / "datasets" / "assets"
