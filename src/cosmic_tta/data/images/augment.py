"""Several views of an image: the plain one, then random crops that may be flipped and mixed with AugMix.

The random numbers of a view depend on the seed, the image's key and the view's number alone.
So view 3 of an image is the same on every machine, in any order, for any number of views and images.
Crops are those of TPT (NeurIPS 2022); mixing is AugMix (ICLR 2020).

A crop is enlarged to the model's size. If the plain image has that size already, its crops would be blurred,
which a small model takes for another domain. Such an image is moved by some pixels instead, with its edges repeated.
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

from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.images.preprocess import Preprocessing

MAX_VIEWS = 512
ASPECT_RATIOS = (3 / 4, 4 / 3)  # smallest and largest width / height of a crop
CROP_ATTEMPTS = 10
OVERSAMPLING = 3  # crops are taken from an image of at least this multiple of the model's size
CHAINS, MAX_CHAIN_LENGTH = 3, 3
GREY = (128, 128, 128)


@dataclass(frozen=True)
class RandomViews:
    """How many views of an image are made, and how.

    Args:
        count: Views per image, the plain one included.
        seed: Seed of the random numbers.
        smallest: Smallest share of the image's area that a crop may have.
        flip: Share of the crops that are flipped.
        move: An image of the model's own size is moved by up to this share of its edge; 0 crops it too.
        mix: Mix each crop with chains of distortions of itself (AugMix).

    Raises:
        ParameterError: A setting is out of range.

    Examples:
        >>> from PIL import Image
        >>> from cosmic_tta.data.images.preprocess import Preprocessing
        >>> RandomViews(3).of(Image.new("RGB", (60, 40)), "cat/1.jpg", Preprocessing((32, 32), 32)).shape
        (3, 32, 32, 3)
    """

    count: int = 1
    seed: int = 0
    smallest: float = 0.08
    flip: float = 0.5
    move: float = 0.125
    mix: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_VIEWS:
            raise ParameterError(f"views must be 1 to {MAX_VIEWS}; given {self.count}.")
        if self.seed < 0:
            raise ParameterError(f"the seed must not be negative; given {self.seed}.")
        for name, low in (("smallest", 0.001), ("flip", 0.0), ("move", 0.0)):
            if not low <= getattr(self, name) <= 1:
                raise ParameterError(f"{name} must be {low:g} to 1; given {getattr(self, name)}.")

    def of(self, image: Image.Image, key: str, preprocessing: Preprocessing) -> NDArray[np.uint8]:
        """Return all views of an RGB image: [count, height, width, 3]. View 0 is the plain image."""
        height, width = preprocessing.size
        views = np.empty((self.count, height, width, 3), np.uint8)
        views[0] = preprocessing.pixels(image)
        make_view = self._moved if self.move and image.size == (width, height) else self._crop
        reduced = _reduced(image, OVERSAMPLING * max(height, width))
        for number in range(1, self.count):
            random = self.random(key, number)
            view = make_view(reduced, random, (width, height))
            views[number] = augmix(view, random) if self.mix else np.asarray(view)
        return views

    def random(self, key: str, number: int) -> np.random.Generator:
        """Return the random generator of one view of one image."""
        digest = blake2b(f"{self.seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=16).digest()
        return np.random.Generator(np.random.PCG64([int.from_bytes(digest, "little"), number]))

    def _crop(self, image: Image.Image, random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        left, top, width, height = crop_box(image.size, self.smallest, random)
        box = (left, top, left + width, top + height)
        crop = image.resize(size, Image.Resampling.BILINEAR, box=box)
        return ImageOps.mirror(crop) if random.random() < self.flip else crop

    def _moved(self, image: Image.Image, random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        limits = [max(1, round(self.move * edge)) for edge in size]
        right, down = (int(random.integers(-limit, limit, endpoint=True)) for limit in limits)
        columns, rows = (
            np.clip(np.arange(edge) - offset, 0, edge - 1) for edge, offset in zip(size, (right, down), strict=True)
        )
        moved = Image.fromarray(np.asarray(image)[rows[:, None], columns])
        return ImageOps.mirror(moved) if random.random() < self.flip else moved


@dataclass(frozen=True)
class GeneratedViews:
    """Views that a diffusion model generated before. Those of `cat/0001.jpg` lie in `FOLDER/cat/0001/`.

    Args:
        folder: The folder of all views.
        count: Views per image; the first files by name are taken.

    Examples:
        >>> GeneratedViews("views", 8).folder_of("cat/0001.jpg").as_posix()
        'views/cat/0001'
    """

    folder: str
    count: int

    @classmethod
    def in_folder(cls, folder: str, keys: Sequence[str]) -> GeneratedViews:
        """Take as many views per image as the first image has.

        Raises:
            InputError: An image has fewer views, or the first one has none.
        """
        count = len(cls(folder, 0).files(keys[0]))
        if not count:
            raise InputError(f"{str(cls(folder, 0).folder_of(keys[0]))!r} holds no views; see `cosmic draw-views`.")
        views = cls(folder, count)
        short = next((key for key in keys if len(views.files(key)) < count), None)
        if short is not None:
            raise InputError(
                f"{str(views.folder_of(short))!r} holds {len(views.files(short))} views, the first image has {count}; "
                "every image needs as many."
            )
        return views

    def folder_of(self, key: str) -> Path:
        """Return the folder of an image's views."""
        return Path(self.folder, *(part for part in Path(key).with_suffix("").parts if part not in ("/", "..")))

    def files(self, key: str) -> list[Path]:
        """Return the files of an image's views, sorted by name."""
        folder = self.folder_of(key)
        return sorted(file for file in folder.glob("[!.]*") if file.is_file()) if folder.is_dir() else []

    def of(self, key: str, preprocessing: Preprocessing) -> NDArray[np.uint8]:
        """Return the views of an image after preprocessing: [count, height, width, 3]."""
        images = [open_image(file) for file in self.files(key)[: self.count]]
        return np.stack([preprocessing.pixels(image) for image in images])


def crop_box(size: tuple[int, int], smallest: float, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Sample the left, top, width and height of a crop.

    Area and log aspect ratio are uniform. If no attempt fits into a long image, the crop is its middle,
    with the nearest aspect ratio that is allowed.
    """
    width, height = size
    for _ in range(CROP_ATTEMPTS):
        area = width * height * random.uniform(smallest, 1.0)
        ratio = math.exp(random.uniform(math.log(ASPECT_RATIOS[0]), math.log(ASPECT_RATIOS[1])))
        crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            return (
                int(random.integers(width - crop_width, endpoint=True)),
                int(random.integers(height - crop_height, endpoint=True)),
                crop_width,
                crop_height,
            )
    ratio = min(max(width / height, ASPECT_RATIOS[0]), ASPECT_RATIOS[1])
    crop_width = max(1, min(width, round(height * ratio)))
    crop_height = max(1, min(height, round(width / ratio)))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def augmix(image: Image.Image, random: np.random.Generator) -> NDArray[np.uint8]:
    """Mix an image with three chains of distortions of itself, with random weights."""
    weights = random.dirichlet(np.ones(CHAINS))
    share = random.beta(1.0, 1.0)
    plain = np.asarray(image, np.float64)
    blend = np.zeros_like(plain)
    for weight in weights:
        distorted = image
        for choice in random.integers(len(DISTORTIONS), size=random.integers(1, MAX_CHAIN_LENGTH, endpoint=True)):
            distorted = DISTORTIONS[choice](distorted, random)
        blend += weight * np.asarray(distorted, np.float64)
    return np.rint(share * plain + (1 - share) * blend).astype(np.uint8)


def _reduced(image: Image.Image, edge: int) -> Image.Image:
    """Shrink a large image by a whole factor, so that its crops are as cheap as those of a small one."""
    factor = min(image.size) // edge
    return image.reduce(factor) if factor > 1 else image


def _signed(random: np.random.Generator, limit: float) -> float:
    return float(random.uniform(0.1, 1.0) * limit * random.choice((-1, 1)))


def _transform(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    method, filtered = Image.Transform.AFFINE, Image.Resampling.BILINEAR
    return image.transform(image.size, method, matrix, resample=filtered, fillcolor=GREY)


def _rotate(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return image.rotate(_signed(random, 3.0), Image.Resampling.BILINEAR, fillcolor=GREY)


def _shear_x(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return _transform(image, (1, _signed(random, 0.03), 0, 0, 1, 0))


def _shear_y(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return _transform(image, (1, 0, 0, _signed(random, 0.03), 1, 0))


def _translate_x(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return _transform(image, (1, 0, _signed(random, image.width / 30), 0, 1, 0))


def _translate_y(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return _transform(image, (1, 0, 0, 0, 1, _signed(random, image.height / 30)))


def _posterize(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.posterize(image, int(random.integers(4, 8, endpoint=True)))


def _solarize(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.solarize(image, int(random.integers(230, 256)))


DISTORTIONS: tuple[Callable[[Image.Image, np.random.Generator], Image.Image], ...] = (
    lambda image, _: ImageOps.autocontrast(image),
    lambda image, _: ImageOps.equalize(image),
    _posterize,
    _rotate,
    _solarize,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
)
