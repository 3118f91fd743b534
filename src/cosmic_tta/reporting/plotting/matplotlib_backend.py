"""Draws a chart with matplotlib, on white, for papers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cosmic_tta.reporting.chart_data import Chart
from cosmic_tta.reporting.plotting.matplotlib_axes import THEME, draw_bars, draw_lines, draw_network, draw_points
from cosmic_tta.reporting.plotting.matplotlib_heatmap import draw_heatmap
from cosmic_tta.reporting.plotting.matplotlib_images import draw_images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0  # inches
STYLE: Mapping[str, Any] = {
    "font.size": 9.5,
    "font.family": ["DejaVu Sans"],
    "axes.edgecolor": THEME["muted"],
    "axes.labelcolor": THEME["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlecolor": THEME["text"],
    "axes.titlepad": 10,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": THEME["border"],
    "text.color": THEME["text"],
    "xtick.color": THEME["muted"],
    "ytick.color": THEME["muted"],
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "cosmic-tta",  # the same chart gives the same file
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def draw_chart(chart: Chart) -> Figure:
    """Draw a chart as a new figure. It does not use pyplot, so it changes no global state."""
    from matplotlib.figure import Figure

    if chart.kind == "images":
        return draw_images(chart)
    figure = Figure(figsize=(WIDTH, _height(chart)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title("\n".join(textwrap.wrap(chart.title, 76)))
    DRAW_BY_KIND[chart.kind](axes, chart)
    _format_axes(axes, chart)
    if chart.note:
        figure.supxlabel(textwrap.fill(chart.note, 108), x=0.01, ha="left", fontsize=7.5, color=THEME["muted"])
    return figure


def _height(chart: Chart) -> float:
    """Return the height of a figure in inches."""
    if chart.kind == "heatmap":
        rows, columns = len(chart.cells), len(chart.cells[0]) if chart.cells else 1
        return float(np.clip(5.4 * rows / max(columns, 1) + 1.2, 3.0, 7.5))
    if chart.kind == "bars":
        bars = sum(len(series.y) for series in chart.series) + len(chart.series[0].y if chart.series else ())
        return float(np.clip(1.4 + 0.28 * bars, 2.6, 9.0))
    return 6.2 if chart.kind == "network" or chart.equal_axes or chart.hide_ticks else 4.0


def _format_axes(axes: Axes, chart: Chart) -> None:
    horizontal = chart.kind == "bars"
    axes.set_xlabel(chart.y_title if horizontal else chart.x_title)
    axes.set_ylabel(chart.x_title if horizontal else chart.y_title)
    if chart.x_range:
        axes.set_xlim(*chart.x_range)
    if chart.y_range:
        axes.set_ylim(*chart.y_range)
    if chart.equal_axes:
        axes.set_aspect("equal", adjustable="box")
    if chart.hide_ticks or chart.kind == "network":
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(chart.hide_ticks and chart.kind != "network")
            spine.set_color(THEME["border"])


DRAW_BY_KIND: Mapping[str, Callable[[Axes, Chart], None]] = {
    "lines": draw_lines,
    "bars": draw_bars,
    "points": draw_points,
    "heatmap": draw_heatmap,
    "network": draw_network,
}
