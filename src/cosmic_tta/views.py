"""Several views of a picture: the plain one, then random crops, some of them flipped and, if wanted, mixed.

A view's random numbers come from the seed, the picture's key and the view's number alone. So view 3 of a picture is
the same on every machine, in any order, however many views or pictures there are. Crops are TPT's (NeurIPS 2022),
mixing is AugMix (ICLR 2020).

A crop is enlarged to the model's size. Where the plain picture has that size already, the crop alone would be blurred,
and a small model sees another domain in it: there a view is the picture moved by some pixels, its edges continued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from cosmic_tta.errors import InputError, ParameterError
from cosmic_tta.pictures import open_picture
from cosmic_tta.preprocessing import Preprocessing

MAX_VIEWS = 512
PROPORTIONS = (3 / 4, 4 / 3)  # of a crop, width to height
ATTEMPTS = 10  # at a crop that fits into the picture
AMPLE = 3  # a crop is taken from a picture with at least so many times the model's size
CHAINS, LONGEST_CHAIN = 3, 3
GREY = (128, 128, 128)


@dataclass(frozen=True)
class Views:
    """How many views of a picture are made, and how."""

    count: int = 1
    seed: int = 0
    smallest: float = 0.08  # a crop's least share of the picture's area
    flip: float = 0.5  # share of crops that are flipped
    move: float = 0.125  # a picture of the model's own size is moved, by up to this share of its edge; 0: cropped too
    mix: bool = False  # mix each crop with chains of distortions of itself

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_VIEWS:
            raise ParameterError(f"views must be 1 to {MAX_VIEWS}; given {self.count}.")
        if self.seed < 0:
            raise ParameterError(f"the seed must not be negative; given {self.seed}.")
        for name, low in (("smallest", 0.001), ("flip", 0.0), ("move", 0.0)):
            if not low <= getattr(self, name) <= 1:
                raise ParameterError(f"{name} must be {low:g} to 1; given {getattr(self, name)}.")

    def of(self, picture: Image.Image, key: str, preprocessing: Preprocessing) -> NDArray[np.uint8]:
        """Return all views of an RGB picture: [count, height, width, 3], view 0 as the model itself takes it."""
        height, width = preprocessing.size
        views = np.empty((self.count, height, width, 3), np.uint8)
        views[0] = preprocessing.pixels(picture)
        cut = self._moved if self.move and picture.size == (width, height) else self._crop
        ample = _reduced(picture, AMPLE * max(height, width))
        for number in range(1, self.count):
            random = self.random(key, number)
            crop = cut(ample, random, (width, height))
            views[number] = mixed(crop, random) if self.mix else np.asarray(crop)
        return views

    def random(self, key: str, number: int) -> np.random.Generator:
        """Return the source of random numbers of one view of one picture."""
        digest = blake2b(f"{self.seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=16).digest()
        return np.random.Generator(np.random.PCG64([int.from_bytes(digest, "little"), number]))

    def _crop(self, picture: Image.Image, random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        left, top, width, height = crop_box(picture.size, self.smallest, random)
        box = (left, top, left + width, top + height)
        crop = picture.resize(size, Image.Resampling.BILINEAR, box=box)
        return ImageOps.mirror(crop) if random.random() < self.flip else crop

    def _moved(self, picture: Image.Image, random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        most = [max(1, round(self.move * edge)) for edge in size]
        right, down = (int(random.integers(-far, far, endpoint=True)) for far in most)
        columns, rows = (
            np.clip(np.arange(edge) - by, 0, edge - 1) for edge, by in zip(size, (right, down), strict=True)
        )
        moved = Image.fromarray(np.asarray(picture)[rows[:, None], columns])
        return ImageOps.mirror(moved) if random.random() < self.flip else moved


@dataclass(frozen=True)
class DrawnViews:
    """Views that lie in a folder, drawn beforehand: those of `cat/0001.jpg` in `FOLDER/cat/0001/`, by their names."""

    folder: str
    count: int  # of each picture

    @classmethod
    def found(cls, folder: str, keys: Sequence[str]) -> DrawnViews:
        """Take as many views as the first picture has; refuse, before any work, a picture that has fewer."""
        count = len(cls(folder, 0).files(keys[0]))
        if not count:
            raise InputError(f"{str(cls(folder, 0).place(keys[0]))!r} holds no views; see `cosmic draw-views`.")
        views = cls(folder, count)
        short = next((key for key in keys if len(views.files(key)) < count), None)
        if short is not None:
            raise InputError(
                f"{str(views.place(short))!r} holds {len(views.files(short))} views, the first picture has {count}; "
                "every picture needs as many."
            )
        return views

    def place(self, key: str) -> Path:
        """Return where the views of a picture lie."""
        return Path(self.folder, *(part for part in Path(key).with_suffix("").parts if part not in ("/", "..")))

    def files(self, key: str) -> list[Path]:
        """Return the views of a picture, by name."""
        place = self.place(key)
        return sorted(file for file in place.glob("[!.]*") if file.is_file()) if place.is_dir() else []

    def of(self, key: str, preprocessing: Preprocessing) -> NDArray[np.uint8]:
        """Return the first views of a picture as the model takes them: [count, height, width, 3]."""
        pictures = [open_picture(file) for file in self.files(key)[: self.count]]
        return np.stack([preprocessing.pixels(picture) for picture in pictures])


def crop_box(size: tuple[int, int], smallest: float, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw a crop's left, top, width and height: area and logarithm of the proportions evenly distributed.

    A picture so long that none of ten draws fits gives its middle, in the nearest proportions allowed.
    """
    width, height = size
    for _ in range(ATTEMPTS):
        area = width * height * random.uniform(smallest, 1.0)
        proportion = math.exp(random.uniform(math.log(PROPORTIONS[0]), math.log(PROPORTIONS[1])))
        across, down = round(math.sqrt(area * proportion)), round(math.sqrt(area / proportion))
        if 0 < across <= width and 0 < down <= height:
            return (
                int(random.integers(width - across, endpoint=True)),
                int(random.integers(height - down, endpoint=True)),
                across,
                down,
            )
    proportion = min(max(width / height, PROPORTIONS[0]), PROPORTIONS[1])
    across = max(1, min(width, round(height * proportion)))
    down = max(1, min(height, round(width / proportion)))
    return (width - across) // 2, (height - down) // 2, across, down


def mixed(picture: Image.Image, random: np.random.Generator) -> NDArray[np.uint8]:
    """Mix a picture with three chains of distortions of itself, at random weights."""
    weights = random.dirichlet(np.ones(CHAINS))
    share = random.beta(1.0, 1.0)
    plain = np.asarray(picture, np.float64)
    blend = np.zeros_like(plain)
    for weight in weights:
        distorted = picture
        for choice in random.integers(len(DISTORTIONS), size=random.integers(1, LONGEST_CHAIN, endpoint=True)):
            distorted = DISTORTIONS[choice](distorted, random)
        blend += weight * np.asarray(distorted, np.float64)
    return np.rint(share * plain + (1 - share) * blend).astype(np.uint8)


def _reduced(picture: Image.Image, edge: int) -> Image.Image:
    """Shrink a large photograph by a whole number, so that crops of it cost no more than those of a small one."""
    factor = min(picture.size) // edge
    return picture.reduce(factor) if factor > 1 else picture


def _signed(random: np.random.Generator, most: float) -> float:
    return float(random.uniform(0.1, 1.0) * most * random.choice((-1, 1)))


def _moved(picture: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    method, filtered = Image.Transform.AFFINE, Image.Resampling.BILINEAR
    return picture.transform(picture.size, method, matrix, resample=filtered, fillcolor=GREY)


def _rotate(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return picture.rotate(_signed(random, 3.0), Image.Resampling.BILINEAR, fillcolor=GREY)


def _shear_x(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return _moved(picture, (1, _signed(random, 0.03), 0, 0, 1, 0))


def _shear_y(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return _moved(picture, (1, 0, 0, _signed(random, 0.03), 1, 0))


def _translate_x(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return _moved(picture, (1, 0, _signed(random, picture.width / 30), 0, 1, 0))


def _translate_y(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return _moved(picture, (1, 0, 0, 0, 1, _signed(random, picture.height / 30)))


def _posterize(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.posterize(picture, int(random.integers(4, 8, endpoint=True)))


def _solarize(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.solarize(picture, int(random.integers(230, 256)))


DISTORTIONS: tuple[Callable[[Image.Image, np.random.Generator], Image.Image], ...] = (
    lambda picture, _: ImageOps.autocontrast(picture),
    lambda picture, _: ImageOps.equalize(picture),
    _posterize,
    _rotate,
    _solarize,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
)
