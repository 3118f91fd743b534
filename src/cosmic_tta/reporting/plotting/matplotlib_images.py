"""A gallery of images with captions as a matplotlib figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from cosmic_tta.reporting.chart_data import Chart
from cosmic_tta.reporting.plotting.palette import THEMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MUTED = THEMES["light"]["muted"]
GAP, LINE_HEIGHT, TITLE_HEIGHT = 0.16, 0.135, 0.2  # inches
NEAREST_ABOVE = 64  # pixels along an edge; smaller images are drawn smoothly


def draw_images(chart: Chart) -> Figure:
    """Draw rows of images, each with its caption below; all sizes are in inches, so that no texts overlap."""
    from matplotlib.figure import Figure

    columns = min(chart.images_per_row, max(1, len(chart.images)))
    size = 1.75 if columns < 6 else 1.4
    captions = [_wrap_caption(caption, int(size * 15)) for _, caption in chart.images]
    rows = [range(first, min(first + columns, len(captions))) for first in range(0, len(captions), columns)]
    row_heights = [
        size + GAP + LINE_HEIGHT * max(len(captions[index][0] + captions[index][1]) for index in row) for row in rows
    ]
    width = columns * (size + GAP) - GAP
    title = textwrap.wrap(chart.title, int(width * 11))
    top_margin = 0.1 + TITLE_HEIGHT * len(title)
    height = sum(row_heights) + top_margin
    figure = Figure(figsize=(width, height))
    for line, text in enumerate(title):
        figure.text(0, 1 - TITLE_HEIGHT * line / height, text, va="top", weight="bold", fontsize=11)
    offset = top_margin
    for row, row_height in zip(rows, row_heights, strict=True):
        for index in row:
            left, top = (index - row[0]) * (size + GAP) / width, 1 - offset / height
            axes = figure.add_axes((left, top - size / height, size / width, size / height))
            axes.axis("off")
            pixels = np.asarray(chart.images[index][0])
            axes.imshow(pixels, interpolation="nearest" if len(pixels) > NEAREST_ABOVE else "bicubic")
            heading, rest = captions[index]
            y = top - (size + 0.05) / height
            figure.text(left, y, "\n".join(heading), va="top", fontsize=7.5, weight="bold", linespacing=1.2)
            y -= LINE_HEIGHT * len(heading) / height
            figure.text(left, y, "\n".join(rest), va="top", fontsize=7, color=MUTED, linespacing=1.2)
        offset += row_height
    if chart.note:
        figure.text(0, 0, textwrap.fill(chart.note, int(15 * width)), va="top", fontsize=7.5, color=MUTED)
    return figure


def _wrap_caption(caption: str, letters: int) -> tuple[list[str], list[str]]:
    """Return the lines of a caption's heading, and of the rest."""
    heading, *rest = caption.split("\n")
    return textwrap.wrap(heading, letters), [part for line in rest for part in textwrap.wrap(line, letters)]
