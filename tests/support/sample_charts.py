"""One small chart of every kind."""

from __future__ import annotations

import numpy as np

from cosmic_tta.reporting.chart_data import Chart, Series

PIXELS = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
CHARTS = {
    "lines": Chart(
        "lines",
        "Lines",
        "lines",
        "x",
        "y",
        [Series("a", [1, 2, 3], [1, 2, float("nan")], [0.1, 0.2, 0.1]), Series("b", [1, 2, 3], [2, 1, 2], dashed=True)],
        note="A note.",
    ),
    "bars": Chart(
        "bars", "Bars", "bars", series=[Series("a", ["p", "q"], [1, 2], [0.1, 0.1]), Series("b", ["p", "q"], [3, 1])]
    ),
    "points": Chart(
        "points",
        "Points",
        "points",
        series=[
            Series("a", [0, 1], [0, 1], point_texts=["u", "v"], label_points=True),
            Series("b", [1], [0], marker="*"),
        ],
        label_series=True,
        hide_ticks=True,
        outlines=[[(0, 0), (1, 0), (1, 1), (0, 0)]],
    ),
    "heatmap": Chart(
        "heatmap",
        "Heat map",
        "heatmap",
        "column",
        "row",
        cells=[[0, 1], [2, float("nan")]],
        row_names=["a", "b"],
        column_names=["c", "d"],
        cell_format=".1f",
    ),
    "surface": Chart(
        "surface",
        "Surface (oracle)",
        "heatmap",
        cells=[[0, 1], [2, 3]],
        row_names=["0", "1"],
        column_names=["0", "1"],
        series=[Series("best", [1], [1])],
    ),
    "network": Chart(
        "network",
        "Network",
        "network",
        series=[Series("t", [0, 1], [0, 0], point_texts=["a", "b"]), Series("v", [0.5], [1], point_texts=["c"])],
        links=[(0, 1), (1, 2)],
        groups=[[0, 1, 2]],
    ),
    "images": Chart("images", "Images", "images", images=[(PIXELS, "head\nand more"), (PIXELS, "other")], note="Seen."),
}
