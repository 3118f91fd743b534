"""Views drawn by a diffusion model, kept in a folder that an extraction takes them from.

The views of `cat/0001.jpg` lie in `FOLDER/cat/0001/`, numbered. A picture whose views are there is not drawn again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from PIL import Image

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.base import Dataset
from cosmic_tta.errors import PictureError
from cosmic_tta.pictures import MAX_PIXELS, open_picture
from cosmic_tta.views import DrawnViews

Draw = Callable[[Image.Image, int, int], list[Image.Image]]
Watch = Callable[[int, int, str], None]


def draw_views(
    dataset: Dataset,
    draw: Draw,
    out: Path,
    count: int,
    *,
    seed: int = 0,
    shift: Corruption | None = None,
    watch: Watch = lambda *_: None,
) -> int:
    """Draw so many views of every picture, shifted first if told; return how many pictures were drawn now."""
    drawn = 0
    views = DrawnViews(str(out), count)
    for place, item in enumerate(dataset.items):
        files = views.files(item.key)
        if len(files) < count:
            picture = open_picture(item.read(), max_pixels=MAX_PIXELS)
            picture = picture if shift is None else shift(picture, item.key)
            made = draw(picture, count, seed_of(item.key, seed))
            if len(made) != count:
                raise PictureError(f"the model drew {len(made)} views of {item.key!r}; {count} were asked for.")
            _write(views.place(item.key), made)
            drawn += 1
        watch(place + 1, len(dataset), "")
    return drawn


def seed_of(key: str, seed: int = 0) -> int:
    """Return the seed of a picture's views."""
    digest = blake2b(f"{seed}\n{key}".encode("utf-8", "surrogateescape"), digest_size=4).digest()
    return int.from_bytes(digest, "little")


def _write(folder: Path, pictures: list[Image.Image]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        unfinished = folder / f".{number:04}.{os.getpid()}"
        picture.convert("RGB").save(unfinished, "PNG")
        unfinished.replace(folder / f"{number:04}.png")
