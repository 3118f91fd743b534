"""Pictures and sentences to compare two renderings of one encoder with: drawn and written here, always the same."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

THINGS = ("cat", "harbour", "pine forest", "bridge", "red bicycle", "bowl of soup", "football pitch", "old clock")
TEMPLATES = ("a photo of a {}.", "a centred satellite photo of a {}, seen from far above")


def sentences() -> list[str]:
    """Return sentences such as classes are put into."""
    return [template.format(thing) for thing in THINGS for template in TEMPLATES]


def pictures(count: int = 16, seed: int = 0) -> list[Image.Image]:
    """Draw pictures with what photographs have: a sky that fades, shapes with edges, blur and grain."""
    return [_picture(np.random.default_rng([seed, number])) for number in range(count)]


def _picture(rng: np.random.Generator) -> Image.Image:
    width, height = (int(edge) for edge in rng.integers(180, 640, 2))
    above, below = rng.uniform(0, 255, (2, 3))
    fade = np.linspace(0, 1, height)[:, None, None]
    ground = np.broadcast_to(above * (1 - fade) + below * fade, (height, width, 3))
    picture = Image.fromarray(ground.astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(3, 12))):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        across, down = rng.uniform(10, width / 2), rng.uniform(10, height / 2)
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        draw = (pen.ellipse, pen.rectangle)[int(rng.integers(2))]
        draw((x - across / 2, y - down / 2, x + across / 2, y + down / 2), fill=colour)
    picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 2))))
    grain = rng.normal(0, rng.uniform(0, 12), (height, width, 1))
    return Image.fromarray(np.clip(np.asarray(picture) + grain, 0, 255).astype(np.uint8))
