"""Accuracy over time as a PNG, drawn with Pillow alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from cosmic_tta.evaluation.metrics import WINDOW

SIZE = (900, 480)
SUPERSAMPLING = 2  # the image is drawn at twice its size, for smooth lines
COLOURS = ("#888888", "#e08a00", "#2a9d4a", "#1f6fd0", "#c2185b", "#7b3fa0")


def draw_curves(curves: Mapping[str, NDArray[np.float64]], title: str, file: Path) -> None:
    """Draw accuracy over time as a PNG, one line per method. Needs neither matplotlib nor plotly.

    Args:
        curves: Accuracy after each image, from 0 to 1, by the name of the method.
        title: Title above the lines.
        file: Where the PNG is written.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> curves = {"zero_shot": np.full(200, 0.6), "cosmic": np.linspace(0.6, 0.7, 200)}
        >>> with TemporaryDirectory() as folder:
        ...     draw_curves(curves, "Accuracy while adapting", Path(folder) / "curves.png")
        ...     with Image.open(Path(folder) / "curves.png") as image:
        ...         print(image.size)
        (900, 480)
    """
    scale = SUPERSAMPLING
    image = Image.new("RGB", (scale * SIZE[0], scale * SIZE[1]), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(scale * 13)
    left, top, right, bottom = (scale * edge for edge in (60, 44, SIZE[0] - 150, SIZE[1] - 56))
    count = max(len(curve) for curve in curves.values())
    begin = min(WINDOW // 4, count // 4)  # the mean of the first few predictions is noise
    values = np.concatenate([curve[begin:] for curve in curves.values()])
    step = 0.1 if values.max() - values.min() > 0.25 else 0.05
    low, high = float(np.floor(values.min() / step) * step), float(np.ceil(values.max() / step + 1e-9) * step)

    def x_pixel(index: float) -> float:
        return left + (right - left) * index / max(1, count - 1)

    def y_pixel(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / (high - low)

    def write(x: float, y: float, text: str, colour: str = "black", anchor: str = "lm") -> None:
        pen.text((x, y), text, fill=colour, font=font, anchor=anchor)

    write(left, scale * 20, title)
    for value in np.arange(low, high + step / 2, step):
        pen.line([x_pixel(0), y_pixel(value), x_pixel(count - 1), y_pixel(value)], fill="#dddddd", width=scale)
        write(left - scale * 8, y_pixel(value), f"{value:.0%}", anchor="rm")
    for index in np.linspace(0, count, 5, dtype=int):
        write(x_pixel(index), bottom + scale * 14, f"{index:,}", anchor="mm")
    write(left, bottom + scale * 38, f"images seen; each point is the accuracy of the last {WINDOW} images")
    label_heights: list[float] = []
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        points = [(x_pixel(begin + index), y_pixel(value)) for index, value in enumerate(curve[begin:])]
        pen.line(points, fill=colour, width=scale * 2, joint="curve")
        height = y_pixel(curve[-1])
        while any(abs(height - other) < scale * 15 for other in label_heights):
            height += scale
        label_heights.append(height)
        write(right + scale * 8, height, f"{name} {curve[-1]:.0%}", colour)
    image.resize(SIZE, Image.Resampling.LANCZOS).save(file, "PNG")
