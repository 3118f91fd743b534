"""Images and sentences to compare two implementations of one encoder; always the same."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

THINGS = ("cat", "harbour", "pine forest", "bridge", "red bicycle", "bowl of soup", "football pitch", "old clock")
TEMPLATES = ("a photo of a {}.", "a centred satellite photo of a {}, seen from far above")


def sample_sentences() -> list[str]:
    """Return typical sentences of classes."""
    return [template.format(thing) for thing in THINGS for template in TEMPLATES]


def sample_images(count: int = 16, seed: int = 0) -> list[Image.Image]:
    """Return synthetic images with features of photographs: gradients, shapes with edges, blur and grain."""
    return [_image(np.random.default_rng([seed, number])) for number in range(count)]


def _image(rng: np.random.Generator) -> Image.Image:
    width, height = (int(edge) for edge in rng.integers(180, 640, 2))
    above, below = rng.uniform(0, 255, (2, 3))
    gradient = np.linspace(0, 1, height)[:, None, None]
    background = np.broadcast_to(above * (1 - gradient) + below * gradient, (height, width, 3))
    image = Image.fromarray(background.astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(3, 12))):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        shape_width, shape_height = rng.uniform(10, width / 2), rng.uniform(10, height / 2)
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        draw = (pen.ellipse, pen.rectangle)[int(rng.integers(2))]
        box = (x - shape_width / 2, y - shape_height / 2, x + shape_width / 2, y + shape_height / 2)
        draw(box, fill=colour)
    image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 2))))
    grain = rng.normal(0, rng.uniform(0, 12), (height, width, 1))
    return Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8))
