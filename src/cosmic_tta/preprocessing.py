"""What an encoder does to a picture before it looks: resize, crop, mean, standard deviation."""

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
ELONGATED = 16  # from this proportion on a picture is not resized as a whole
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """How pictures become pixels of one size, and pixels the numbers that a model takes.

    The pixels are made by `pixels` in eight bits, wherever pictures are decoded; `normalise` runs beside the model.
    """

    size: tuple[int, int]  # height, width of what the model sees
    resize: int | tuple[int, int]  # the shorter edge, or height and width whatever the proportions
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    resample: str = "bicubic"
    middle: Literal["floor", "round"] = "floor"  # where the crop lies if it cannot lie in the very middle

    def pixels(self, picture: Image.Image) -> NDArray[np.uint8]:
        """Resize and crop an RGB picture: [height, width, 3]."""
        width, height = self._resized(*picture.size)
        left, top = self._middle(width - self.size[1]), self._middle(height - self.size[0])
        window = (left, top, left + self.size[1], top + self.size[0])
        method = FILTERS[self.resample]
        if max(width, height) <= ELONGATED * min(width, height):
            return np.asarray(picture.resize((width, height), method).crop(window))
        # A picture of one pixel by many would become a giant: only what the crop shows is made.
        across, down = picture.width / width, picture.height / height
        seen = (window[0] * across, window[1] * down, window[2] * across, window[3] * down)
        return np.asarray(picture.resize((self.size[1], self.size[0]), method, box=seen))

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn [B, height, width, 3] in eight bits into what the model takes: [B, 3, height, width]."""
        scale, shift = self.affine()
        numbers = pixels.astype(np.float32) * scale - shift
        return np.ascontiguousarray(numbers.transpose(0, 3, 1, 2))

    def affine(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return scale [3] and shift [3]: a channel's number is its eight bits times the scale, less the shift."""
        mean, std = np.array(self.mean), np.array(self.std)
        return (1 / (255 * std)).astype(np.float32), (mean / std).astype(np.float32)

    def described(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_described(cls, settings: Mapping[str, Any]) -> Preprocessing:
        """Make it of the settings that `described` returned; unknown or missing ones raise ValueError or TypeError."""
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

    def _middle(self, spare: int) -> int:
        return round(spare / 2) if self.middle == "round" else spare // 2
