"""Reproducible shifts of pictures: noise, blur, contrast, haze, pixelation, JPEG, in five severities.

The kinds are those of Hendrycks and Dietterich (ICLR 2019); the strengths are set for small pictures, in proportion
to their size where that matters. Random numbers come from the seed and the picture's key alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from cosmic_tta.errors import ParameterError, unknown_name

SEVERITIES = range(1, 6)
Pixels = NDArray[np.float64]  # [height, width, 3] in [0, 1]


@dataclass(frozen=True)
class Corruption:
    """One kind of shift at one severity."""

    kind: str
    severity: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in CORRUPTIONS:
            raise unknown_name("corruption", self.kind, CORRUPTIONS)
        if self.severity not in SEVERITIES:
            raise ParameterError(f"severity must be 1 to 5; given {self.severity}.")

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> Corruption:
        """Read `kind:severity`, or a kind alone.

        >>> Corruption.parse("haze:4")
        Corruption(kind='haze', severity=4, seed=0)
        """
        kind, colon, severity = text.partition(":")
        if colon and not severity.isdecimal():
            raise ParameterError(f"a shift is written KIND:SEVERITY, such as haze:4; given {text!r}.")
        return cls(kind, int(severity) if colon else 3, seed)

    def __str__(self) -> str:
        return f"{self.kind} {self.severity} of 5"

    def __call__(self, picture: Image.Image, key: str) -> Image.Image:
        """Return the shifted picture, of the same size."""
        digest = blake2b(f"{self.kind}\n{self.seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=16)
        random = np.random.Generator(np.random.PCG64(int.from_bytes(digest.digest(), "little")))
        change, strengths = CORRUPTIONS[self.kind]
        return change(picture, strengths[self.severity - 1], random)


def _as_pixels(picture: Image.Image) -> Pixels:
    return np.asarray(picture, np.float64) / 255


def _as_picture(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8))


def _noise(picture: Image.Image, strength: float, random: np.random.Generator) -> Image.Image:
    pixels = _as_pixels(picture)
    return _as_picture(pixels + strength * random.standard_normal(pixels.shape))


def _blur(picture: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(strength * min(picture.size)))


def _contrast(picture: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    pixels = _as_pixels(picture)
    mean = pixels.mean(axis=(0, 1))
    return _as_picture((pixels - mean) * strength + mean)


def _haze(picture: Image.Image, strength: float, random: np.random.Generator) -> Image.Image:
    """Lay a white veil over the picture, thicker in some places than in others."""
    coarse = random.uniform(0, 1, (4, 4))
    veil = Image.fromarray(coarse.astype(np.float32)).resize(picture.size, Image.Resampling.BICUBIC)
    thickness = strength * (0.7 + 0.6 * np.clip(np.asarray(veil, np.float64), 0, 1))[..., None]
    pixels = _as_pixels(picture)
    return _as_picture(pixels * (1 - np.clip(thickness, 0, 1)) + 0.95 * np.clip(thickness, 0, 1))


def _pixelate(picture: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    small = tuple(max(1, round(edge * strength)) for edge in picture.size)
    return picture.resize((small[0], small[1]), Image.Resampling.BOX).resize(picture.size, Image.Resampling.NEAREST)


def _jpeg(picture: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=int(strength))
    return Image.open(file).convert("RGB")


Change = Callable[[Image.Image, float, np.random.Generator], Image.Image]
CORRUPTIONS: Mapping[str, tuple[Change, tuple[float, float, float, float, float]]] = {
    "noise": (_noise, (0.02, 0.04, 0.06, 0.08, 0.1)),
    "blur": (_blur, (0.01, 0.016, 0.022, 0.028, 0.035)),
    "contrast": (_contrast, (0.75, 0.6, 0.45, 0.35, 0.25)),
    "haze": (_haze, (0.2, 0.3, 0.4, 0.5, 0.6)),
    "pixelation": (_pixelate, (0.85, 0.7, 0.6, 0.5, 0.4)),
    "jpeg": (_jpeg, (70, 50, 30, 18, 10)),
}
