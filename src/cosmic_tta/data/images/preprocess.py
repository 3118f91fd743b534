"""Preprocessing of an encoder: resize, crop, mean and standard deviation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
MAX_ASPECT_RATIO = 16  # of a longer image only the crop is resized
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes pixels of one size, and pixels become the input of a model.

    `pixels` makes eight-bit pixels in the process that decodes; `normalise` runs in the process of the model.

    Args:
        size: Height and width of the model's input.
        resize: Length of the shorter edge, or height and width regardless of the aspect ratio.
        mean: Mean per channel.
        std: Standard deviation per channel.
        resample: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        middle: How the offset of the center crop is rounded: `floor` or `round`.

    Examples:
        >>> preprocessing = Preprocessing((32, 32), 32)
        >>> pixels = preprocessing.pixels(Image.new("RGB", (60, 40)))
        >>> pixels.shape, preprocessing.normalise(pixels[None]).shape
        ((32, 32, 3), (1, 3, 32, 32))
    """

    size: tuple[int, int]
    resize: int | tuple[int, int]
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    resample: str = "bicubic"
    middle: Literal["floor", "round"] = "floor"

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """Resize and crop an RGB image: [height, width, 3]."""
        width, height = self._resized(*image.size)
        left, top = self._crop_offset(width - self.size[1]), self._crop_offset(height - self.size[0])
        window = (left, top, left + self.size[1], top + self.size[0])
        method = FILTERS[self.resample]
        if max(width, height) <= MAX_ASPECT_RATIO * min(width, height):
            return np.asarray(image.resize((width, height), method).crop(window))
        # A very long image would become huge if it was resized as a whole.
        x, y = image.width / width, image.height / height
        box = (window[0] * x, window[1] * y, window[2] * x, window[3] * y)
        return np.asarray(image.resize((self.size[1], self.size[0]), method, box=box))

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the input of the model [B, 3, height, width] for eight-bit pixels [B, height, width, 3]."""
        scale, shift = self.affine()
        normalised = pixels.astype(np.float32) * scale - shift
        return np.ascontiguousarray(normalised.transpose(0, 3, 1, 2))

    def affine(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return scale [3] and shift [3]: the input of the model is eight-bit pixels times scale minus shift."""
        mean, std = np.array(self.mean), np.array(self.std)
        return (1 / (255 * std)).astype(np.float32), (mean / std).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as values for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Preprocessing:
        """Make one from the settings of `to_dict`; unknown or missing ones raise ValueError or TypeError."""
        values: dict[str, Any] = {
            key: tuple(item) if isinstance(item, list) else item for key, item in settings.items()
        }
        made = cls(**values)
        pairs = [made.size] if isinstance(made.resize, int) else [made.size, made.resize]
        numbers = [number for pair in pairs for number in pair] + [made.resize] * isinstance(made.resize, int)
        if any(len(pair) != 2 for pair in pairs) or any(type(number) is not int or number < 1 for number in numbers):
            raise ValueError(f"size and resize must be whole numbers of pixels; given {made.size}, {made.resize}")
        if len(made.mean) != 3 or len(made.std) != 3 or min(made.std) <= 0:
            raise ValueError(f"mean and std must be three numbers each; given {made.mean}, {made.std}")
        if made.resample not in FILTERS or made.middle not in ("floor", "round"):
            raise ValueError(f"resample must be one of {', '.join(FILTERS)}; given {made.resample!r}, {made.middle!r}")
        return made

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height after resizing, before the crop."""
        if not isinstance(self.resize, int):
            return self.resize[1], self.resize[0]
        short, long = min(width, height), max(width, height)
        scaled = self.resize * long // short
        return (self.resize, scaled) if width <= height else (scaled, self.resize)

    def _crop_offset(self, margin: int) -> int:
        return round(margin / 2) if self.middle == "round" else margin // 2
