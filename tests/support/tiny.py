"""Encoders of a few numbers and images of a few pixels, for tests of what surrounds real ones."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.arrays import unit
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.base import Tokens


class TinyEncoder:
    """A random projection of the pixels; counts what it was given."""

    logit_scale = 50.0

    def __init__(self, dim: int = 8, edge: int = 16, name: str = "tiny:clip") -> None:
        self.name, self.dim = name, dim
        self.preprocessing = Preprocessing((edge, edge), edge)
        self.fingerprint = f"{name}-{dim}-{edge}"
        weights = np.random.default_rng(0).standard_normal((3 * edge * edge, dim)) / edge
        self._weights = weights.astype(np.float32)
        self.batches: list[tuple[int, ...]] = []

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        self.batches.append(pixels.shape)
        rows = self.preprocessing.normalise(pixels).reshape(len(pixels), -1)
        return unit(rows @ self._weights)

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        summary = self.encode(pixels)
        return Tokens(summary, summary[:, None, None])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts]
        return unit(
            np.stack([np.random.default_rng(seed).standard_normal(self.dim) for seed in seeds], dtype=np.float32)
        )


def image(number: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    """A colourful image that no other number has."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(256, size=(5, 5, 3), dtype=np.uint8))
    return coarse.resize(size, Image.Resampling.BICUBIC)


def class_folders(root: Path, classes: Sequence[str], each: int) -> Path:
    """A folder of class folders with JPEGs of different sizes."""
    number = 0
    for name in classes:
        (root / name).mkdir(parents=True)
        for _ in range(each):
            image(number, (30 + number % 17, 24 + number % 13)).save(root / name / f"{number:04}.jpg")
            number += 1
    return root
