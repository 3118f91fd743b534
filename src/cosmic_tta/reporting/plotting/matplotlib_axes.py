"""Lines, bars, points and networks on the axes of a matplotlib figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cosmic_tta.reporting.chart_data import Chart, Series
from cosmic_tta.reporting.plotting.chart_layout import hull_margin, legend_columns, marker_of, node_positions
from cosmic_tta.reporting.plotting.geometry import Points, rounded_hull, separate_labels, separate_nearby_labels
from cosmic_tta.reporting.plotting.palette import GREY, LIGHT, THEMES, colour_indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THEME = THEMES["light"]
MAX_MARKED_POINTS = 24  # a longer line has no markers
MAX_LABELLED_LINES = 9  # more lines have a legend instead of names at their ends


class LineEnd(NamedTuple):
    """The last finite point of a line, and how it is labelled."""

    x: float
    y: float
    name: str
    colour: str


def hex_colour(index: int) -> str:
    """Return the colour of a palette index."""
    return THEME["grey"] if index == GREY else LIGHT[index % len(LIGHT)]


def draw_lines(axes: Axes, chart: Chart) -> None:
    """Draw lines with bands of deviation, and their names at their ends or in a legend."""
    axes.grid(axis="y")
    ends: list[LineEnd] = []
    for series, index in zip(chart.series, colour_indices(chart.series), strict=True):
        x, y, colour = list(series.x), np.asarray(series.y, float), hex_colour(index)
        axes.plot(
            x,
            y,
            color=colour,
            linestyle="--" if series.dashed else "-",
            marker=series.marker if len(x) <= MAX_MARKED_POINTS and not series.dashed else "",
            markersize=4,
            zorder=2 if index == GREY else 3,
        )
        if len(series.deviations):
            deviations = np.asarray(series.deviations, float)
            axes.fill_between(x, y - deviations, y + deviations, color=colour, alpha=0.15, linewidth=0)
        finite = np.flatnonzero(np.isfinite(y))
        if len(finite):
            ends.append(LineEnd(x[finite[-1]], float(y[finite[-1]]), series.name, colour))
    if len(chart.series) < 2 or not ends:
        return
    if len(chart.series) > MAX_LABELLED_LINES or len({end.x for end in ends}) > 1:
        axes.legend([s.name for s in chart.series], loc="best", fontsize=8, ncols=1 + len(chart.series) // 10)
    else:
        _label_line_ends(axes, ends, chart.y_range or axes.get_ylim())


def _label_line_ends(axes: Axes, ends: Sequence[LineEnd], y_limits: tuple[float, float]) -> None:
    heights = separate_labels([end.y for end in ends], 0.052 * (y_limits[1] - y_limits[0]))
    for end, height in zip(ends, heights, strict=True):
        axes.annotate(
            end.name,
            (1.0, height),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=end.colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )


def draw_bars(axes: Axes, chart: Chart) -> None:
    """Draw horizontal bars, so that their names can be read."""
    names = list(chart.series[0].x)
    thickness = 0.8 / len(chart.series)
    values = np.array([value for series in chart.series for value in series.y], float)
    gap = 0.01 * float(np.nanmax(np.abs(values), initial=0.0) or 1)
    for number, (series, index) in enumerate(zip(chart.series, colour_indices(chart.series), strict=True)):
        heights = np.arange(len(names)) + (number - (len(chart.series) - 1) / 2) * thickness
        errors = list(series.deviations) if len(series.deviations) else None
        axes.barh(
            heights,
            list(series.y),
            thickness * 0.92,
            xerr=errors,
            color=hex_colour(index),
            label=series.name,
            error_kw={"ecolor": THEME["muted"], "elinewidth": 1},
        )
        for bar, (height, value) in enumerate(zip(heights, series.y, strict=True)):
            end = value + (errors[bar] if errors else 0.0)
            text = series.point_texts[bar] if len(series.point_texts) else f"{value:.4g}"
            if np.isfinite(value):
                axes.text(max(end, 0) + gap, height, text, va="center", fontsize=7.5, color=THEME["muted"])
    axes.set_yticks(range(len(names)), [textwrap.shorten(str(name), 48, placeholder=" …") for name in names])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.1)
    axes.grid(axis="x")
    if len(chart.series) > 1:
        columns = legend_columns([series.name for series in chart.series])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, fontsize=8)
        axes.set_title(axes.get_title(loc="left"), pad=14 + 14 * -(-len(chart.series) // columns))


def draw_points(axes: Axes, chart: Chart) -> None:
    """Draw series of points over their outlines, with names at the points or in a legend."""
    for number, corners in enumerate(chart.outlines):
        _draw_outline(axes, np.array(corners), hex_colour(number), fill_alpha=0.1, line_alpha=0.6)
    for number, (series, index) in enumerate(zip(chart.series, colour_indices(chart.series), strict=True)):
        marker = marker_of(series, number if series.colour is None else index)
        size = 170 if marker == "*" else 26
        axes.scatter(
            list(series.x),
            list(series.y),
            s=size,
            marker=marker,
            label=series.name,
            alpha=0.92,
            zorder=6 if size > 99 else 3,
            color=hex_colour(index),
            edgecolors=hex_colour(index) if marker == "x" else "white",
            linewidths=1.3 if marker == "x" else 0.6,
        )
        for text, x, y in zip(series.point_texts if series.label_points else (), series.x, series.y, strict=False):
            axes.annotate(text, (x, y), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=7.5, zorder=5)
    if chart.label_series:
        _label_series(axes, chart.series)
    elif len(chart.series) > 1:
        below = 0 if chart.hide_ticks else -0.14  # below the ticks and the title of the axis
        columns = legend_columns([series.name for series in chart.series])
        axes.legend(loc="upper left", bbox_to_anchor=(0, below), ncols=columns, fontsize=8)


def _draw_outline(axes: Axes, outline: Points, colour: str, *, fill_alpha: float, line_alpha: float) -> None:
    x, y = outline.T
    axes.fill(x, y, color=colour, alpha=fill_alpha, linewidth=0, zorder=1)
    axes.plot(x, y, color=colour, alpha=line_alpha, linewidth=0.9, zorder=1)


def _label_series(axes: Axes, all_series: Sequence[Series]) -> None:
    """Write the name of each series at the median of its points."""
    labelled = [
        (series, hex_colour(index))
        for series, index in zip(all_series, colour_indices(all_series), strict=True)
        if series.name and len(series.x)
    ]
    centres = [(float(np.median(np.asarray(series.x, float))), float(np.median(series.y))) for series, _ in labelled]
    heights = separate_nearby_labels(centres, axes.get_xlim(), axes.get_ylim())
    for (series, colour), (x, _), height in zip(labelled, centres, heights, strict=True):
        axes.text(
            x,
            height,
            series.name,
            fontsize=8,
            ha="center",
            va="center",
            color=colour,
            weight="bold",
            zorder=7,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )


def draw_network(axes: Axes, chart: Chart) -> None:
    """Draw nodes with their names, links between them, and an outline around each group."""
    positions = node_positions(chart)
    for number, group in enumerate(chart.groups):
        outline = rounded_hull(positions[list(group)], hull_margin(len(positions)))
        _draw_outline(axes, outline, hex_colour(number), fill_alpha=0.13, line_alpha=0.5)
    for a, b in chart.links:
        axes.plot(*positions[[a, b]].T, color=THEME["grey"], linewidth=0.8, alpha=0.6, zorder=2)
    first, font_size = 0, 6.5 if len(positions) > 45 else 8
    for series, index in zip(chart.series, colour_indices(chart.series), strict=True):
        axes.scatter(
            list(series.x),
            list(series.y),
            s=46,
            color=hex_colour(index),
            marker=series.marker,
            edgecolors="white",
            linewidths=0.8,
            zorder=3,
            label=series.name,
        )
        for text, (x, y) in zip(series.point_texts, positions[first : first + len(series.x)], strict=False):
            axes.annotate(
                text,
                (x, y),
                xytext=(0, -8),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=font_size,
                zorder=4,
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.6},
            )
        first += len(series.x)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    if len(chart.series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), ncols=3, fontsize=8)
