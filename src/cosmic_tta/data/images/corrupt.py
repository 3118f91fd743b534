"""Reproducible corruptions of images: noise, blur, contrast, haze, pixelation, JPEG, in five severities.

The kinds are those of Hendrycks and Dietterich (ICLR 2019). The strengths are chosen for small images, and are
proportional to the size of the image where that matters.
Random numbers depend on the seed and the image's key alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from cosmic_tta.core.errors import ParameterError, unknown_name

SEVERITIES = range(1, 6)
Pixels = NDArray[np.float64]  # [height, width, 3] in [0, 1]


@dataclass(frozen=True)
class Corruption:
    """One kind of corruption at one severity.

    Args:
        kind: `noise`, `blur`, `contrast`, `haze`, `pixelation` or `jpeg`.
        severity: 1 (weak) to 5 (strong).
        seed: Seed of the random numbers.

    Raises:
        UnknownNameError: There is no such kind.
        ParameterError: The severity is not 1 to 5.

    Examples:
        >>> shift = Corruption("haze", severity=4)
        >>> str(shift), shift(Image.new("RGB", (4, 4)), "cat/1.jpg").size
        ('haze 4 of 5', (4, 4))
    """

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
        """Parse `kind:severity`, or a kind alone.

        >>> Corruption.parse("haze:4")
        Corruption(kind='haze', severity=4, seed=0)
        """
        kind, colon, severity = text.partition(":")
        if colon and not severity.isdecimal():
            raise ParameterError(f"a shift is written KIND:SEVERITY, such as haze:4; given {text!r}.")
        return cls(kind, int(severity) if colon else 3, seed)

    def __str__(self) -> str:
        return f"{self.kind} {self.severity} of 5"

    def __call__(self, image: Image.Image, key: str) -> Image.Image:
        """Return the corrupted image, of the same size."""
        digest = blake2b(f"{self.kind}\n{self.seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=16)
        random = np.random.Generator(np.random.PCG64(int.from_bytes(digest.digest(), "little")))
        corrupt, strengths = CORRUPTIONS[self.kind]
        return corrupt(image, strengths[self.severity - 1], random)


def _as_pixels(image: Image.Image) -> Pixels:
    return np.asarray(image, np.float64) / 255


def _as_image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8))


def _noise(image: Image.Image, strength: float, random: np.random.Generator) -> Image.Image:
    pixels = _as_pixels(image)
    return _as_image(pixels + strength * random.standard_normal(pixels.shape))


def _blur(image: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(strength * min(image.size)))


def _contrast(image: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    pixels = _as_pixels(image)
    mean = pixels.mean(axis=(0, 1))
    return _as_image((pixels - mean) * strength + mean)


def _haze(image: Image.Image, strength: float, random: np.random.Generator) -> Image.Image:
    """Blend the image with white, with an opacity that varies smoothly over the image."""
    coarse = random.uniform(0, 1, (4, 4))
    smooth = Image.fromarray(coarse.astype(np.float32)).resize(image.size, Image.Resampling.BICUBIC)
    opacity = strength * (0.7 + 0.6 * np.clip(np.asarray(smooth, np.float64), 0, 1))[..., None]
    pixels = _as_pixels(image)
    return _as_image(pixels * (1 - np.clip(opacity, 0, 1)) + 0.95 * np.clip(opacity, 0, 1))


def _pixelate(image: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    small = tuple(max(1, round(edge * strength)) for edge in image.size)
    return image.resize((small[0], small[1]), Image.Resampling.BOX).resize(image.size, Image.Resampling.NEAREST)


def _jpeg(image: Image.Image, strength: float, _: np.random.Generator) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=int(strength))
    return Image.open(file).convert("RGB")


Corrupt = Callable[[Image.Image, float, np.random.Generator], Image.Image]
CORRUPTIONS: Mapping[str, tuple[Corrupt, tuple[float, float, float, float, float]]] = {
    "noise": (_noise, (0.02, 0.04, 0.06, 0.08, 0.1)),
    "blur": (_blur, (0.01, 0.016, 0.022, 0.028, 0.035)),
    "contrast": (_contrast, (0.75, 0.6, 0.45, 0.35, 0.25)),
    "haze": (_haze, (0.2, 0.3, 0.4, 0.5, 0.6)),
    "pixelation": (_pixelate, (0.85, 0.7, 0.6, 0.5, 0.4)),
    "jpeg": (_jpeg, (70, 50, 30, 18, 10)),
}
