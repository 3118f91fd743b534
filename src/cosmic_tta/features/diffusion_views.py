"""Views that a diffusion model generates, stored in a folder for a later extraction.

The views of `cat/0001.jpg` are numbered PNG files in `FOLDER/cat/0001/`.
Views that exist already are not generated again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from PIL import Image

from cosmic_tta.core.errors import ImageError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.images.augment import GeneratedViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import MAX_PIXELS, open_image
from cosmic_tta.encoders.diffusion import ViewGenerator

Watch = Callable[[int, int, str], None]


def generate_views(
    dataset: Dataset,
    generate: ViewGenerator,
    out: Path,
    count: int,
    *,
    seed: int = 0,
    shift: Corruption | None = None,
    watch: Watch = lambda *_: None,
) -> int:
    """Generate views of every image, after a shift if one is given.

    Args:
        dataset: The images.
        generate: Makes variations of an image, as `cosmic_tta.encoders.diffusion.load` returns it.
        out: Folder of the views.
        count: Views per image.
        seed: Seed of the random numbers.
        shift: Corrupts each image first, reproducibly.
        watch: Called with images done, images in all, and an empty string.

    Returns:
        For how many images views were generated now.

    Raises:
        ImageError: An image cannot be decoded, or the model returned another number of views.
    """
    new = 0
    views = GeneratedViews(str(out), count)
    for position, item in enumerate(dataset.items):
        if len(views.files(item.key)) < count:
            image = open_image(item.read(), max_pixels=MAX_PIXELS)
            image = image if shift is None else shift(image, item.key)
            made = generate(image, count, seed_of(item.key, seed))
            if len(made) != count:
                raise ImageError(f"the model generated {len(made)} views of {item.key!r}; {count} were asked for.")
            _write(views.folder_of(item.key), made)
            new += 1
        watch(position + 1, len(dataset), "")
    return new


def seed_of(key: str, seed: int = 0) -> int:
    """Return the seed of an image's views."""
    digest = blake2b(f"{seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=4).digest()
    return int.from_bytes(digest, "little")


def _write(folder: Path, images: list[Image.Image]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        file = io.BytesIO()
        image.convert("RGB").save(file, "PNG")
        write_atomic(folder / f"{number:04}.png", file.getvalue(), durable=False)
