"""What both backends compute from a chart before they draw it: markers, node positions, texts in cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.reporting.chart_data import Chart, Series
from cosmic_tta.reporting.plotting.palette import LIGHT, MARKERS


def marker_of(series: Series, index: int) -> str:
    """Return the marker of a series of points: its own, or the next one for an index past the colours."""
    return series.marker if series.marker != "o" or index < 0 else MARKERS[index // len(LIGHT) % len(MARKERS)]


def legend_columns(names: Sequence[str], letters: int = 60) -> int:
    """Return how many columns a legend has room for.

    >>> legend_columns(["given", "none"]), legend_columns(["COSMIC, the authors' program"] * 7)
    (2, 2)
    """
    return max(1, min(4, len(names), letters // (max(map(len, names)) + 2)))


def heatmap_marks(chart: Chart) -> list[tuple[float, float, str]]:
    """Return the marked positions on a heat map: column, row, name."""
    return [
        (float(x), float(y), series.name) for series in chart.series for x, y in zip(series.x, series.y, strict=True)
    ]


def mark_label_sides(chart: Chart) -> list[tuple[str, str]]:
    """Return on which side of each mark its name has room, such as ("top", "right")."""
    sides = []
    for number, (column, row, _) in enumerate(heatmap_marks(chart)):
        rows, columns = len(chart.row_names), len(chart.column_names)
        above = row < 0.1 * rows or (row < 0.9 * rows and number % 2 == 0)
        sides.append(("top" if above else "bottom", "left" if column > 0.6 * columns else "right"))
    return sides


def tick_indices(count: int, *, is_surface: bool) -> list[int]:
    """Return which rows or columns of a heat map have their name at the axis."""
    return list(range(0, count, max(1, count // (10 if is_surface else 40))))


def cell_text(value: float, form: str) -> str:
    """Return the text of a heat map's cell: nothing for a value that rounds to zero.

    >>> cell_text(12.3, ".0f"), cell_text(0.2, ".0f")
    ('12', '')
    """
    text = f"{value:{form}}" if np.isfinite(value) else ""
    return text if text.strip("-0.") else ""


def node_positions(chart: Chart) -> NDArray[np.float64]:
    """Return the positions of the nodes of all series in order, [n, 2]."""
    x = [float(value) for series in chart.series for value in series.x]
    y = [float(value) for series in chart.series for value in series.y]
    return np.stack([x, y], axis=1)


def hull_margin(nodes: int) -> float:
    """Return the distance between a group's outline and its nodes, in a layout from -1 to 1."""
    return float(np.clip(0.32 / np.sqrt(max(nodes, 1)), 0.025, 0.08))
