"""A heat map on the axes of a matplotlib figure: a matrix with numbers, or a surface with marked positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.reporting.chart_data import Chart
from cosmic_tta.reporting.plotting.chart_layout import cell_text, heatmap_marks, mark_label_sides, tick_indices
from cosmic_tta.reporting.plotting.palette import HEATMAP_SCALE, SURFACE_SCALE, THEMES, is_dark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT = THEMES["light"]["text"]


def draw_heatmap(axes: Axes, chart: Chart) -> None:
    """Draw the cells, their names and numbers, the marked positions and the colour scale."""
    from matplotlib.colors import LinearSegmentedColormap

    cells, is_surface = np.asarray(chart.cells, float), bool(chart.series)
    image = axes.imshow(
        cells,
        cmap=LinearSegmentedColormap.from_list("cosmic", list(SURFACE_SCALE if is_surface else HEATMAP_SCALE)),
        aspect="auto" if is_surface else "equal",
        origin="lower" if is_surface else "upper",
    )
    for spine in axes.spines.values():
        spine.set_visible(False)
    _set_ticks(axes, chart, len(cells))
    if chart.cell_format:
        _write_numbers(axes, cells, chart.cell_format)
    _draw_marks(axes, chart, cells)
    axes.figure.colorbar(image, ax=axes, label=chart.z_title, shrink=0.8, pad=0.02).outline.set_visible(False)


def _set_ticks(axes: Axes, chart: Chart, rows: int) -> None:
    for names, set_ticks in ((chart.column_names, axes.set_xticks), (chart.row_names, axes.set_yticks)):
        shown = tick_indices(len(names), is_surface=bool(chart.series))
        set_ticks(shown, [str(names[index]) for index in shown])
    if not chart.series and max(map(len, map(str, chart.column_names)), default=0) > 3:
        axes.tick_params(axis="x", labelrotation=55)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.tick_params(length=0, labelsize=8 if rows < 25 else 6.5)


def _write_numbers(axes: Axes, cells: NDArray[np.float64], form: str) -> None:
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    font_size = 7.5 if len(cells) < 16 else 5.5
    for (row, column), value in np.ndenumerate(cells):
        if text := cell_text(value, form):
            share = (value - low) / ((high - low) or 1)
            colour = "white" if share > 0.5 else TEXT
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=font_size)


def _draw_marks(axes: Axes, chart: Chart, cells: NDArray[np.float64]) -> None:
    """Draw a circle and a name at each marked position, in white where the surface is dark."""
    for (column, row, name), (height, side) in zip(heatmap_marks(chart), mark_label_sides(chart), strict=True):
        level = (cells[round(row), round(column)] - cells.min()) / (np.ptp(cells) or 1)
        colour = "white" if is_dark(SURFACE_SCALE[min(6, int(7 * level))]) else TEXT
        axes.plot(
            [column],
            [row],
            marker="o",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=1.8,
        )
        axes.annotate(
            name,
            (column, row),
            xytext=(-9 if side == "left" else 9, 9 if height == "top" else -9),
            textcoords="offset points",
            ha="right" if side == "left" else "left",
            va="center",
            fontsize=8.5,
            color=colour,
            weight="bold",
        )
