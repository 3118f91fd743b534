"""Charts drawn by matplotlib, on white, for papers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cosmic_tta.charts import Chart, Series
from cosmic_tta.drawing.palette import GREY, HEAT, INKS, LIGHT, MARKS, SURFACE, colour_places, is_dark
from cosmic_tta.drawing.shapes import part_labels, surround

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = INKS["light"]
WIDTH = 7.0  # inches
STYLE: Mapping[str, Any] = {
    "font.size": 9.5,
    "font.family": ["DejaVu Sans"],
    "axes.edgecolor": INK["soft"],
    "axes.labelcolor": INK["soft"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlecolor": INK["ink"],
    "axes.titlepad": 10,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": INK["rule"],
    "text.color": INK["ink"],
    "xtick.color": INK["soft"],
    "ytick.color": INK["soft"],
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "cosmic-tta",  # the same chart gives the same file
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def draw(chart: Chart) -> Figure:
    """Draw a chart. Not by pyplot: nothing global is left behind."""
    from matplotlib.figure import Figure

    if chart.kind == "pictures":
        figure = _pictures(chart)
    else:
        figure = Figure(figsize=(WIDTH, _height(chart)), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title("\n".join(textwrap.wrap(chart.title, 76)))
        KINDS[chart.kind](axes, chart)
        _frame(axes, chart)
    if chart.note and chart.kind == "pictures":
        wide = int(15 * figure.get_figwidth())
        figure.text(0, 0, textwrap.fill(chart.note, wide), va="top", fontsize=7.5, color=INK["soft"])
    elif chart.note:
        figure.supxlabel(textwrap.fill(chart.note, 108), x=0.01, ha="left", fontsize=7.5, color=INK["soft"])
    return figure


def _height(chart: Chart) -> float:
    if chart.kind == "heat":
        rows, columns = len(chart.cells), len(chart.cells[0]) if chart.cells else 1
        return float(np.clip(5.4 * rows / max(columns, 1) + 1.2, 3.0, 7.5))
    if chart.kind == "bars":
        return float(np.clip(1.4 + 0.28 * _bars_count(chart), 2.6, 9.0))
    return 6.2 if chart.kind == "network" or chart.square or chart.bare else 4.0


def _frame(axes: Axes, chart: Chart) -> None:
    lying = chart.kind == "bars"
    axes.set_xlabel(chart.y_title if lying else chart.x_title)
    axes.set_ylabel(chart.x_title if lying else chart.y_title)
    if chart.x_range:
        axes.set_xlim(*chart.x_range)
    if chart.y_range:
        axes.set_ylim(*chart.y_range)
    if chart.square:
        axes.set_aspect("equal", adjustable="box")
    if chart.bare or chart.kind == "network":
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_visible(chart.bare and chart.kind != "network")
            side.set_color(INK["rule"])


def _ink(place: int) -> str:
    return INK["grey"] if place == GREY else LIGHT[place % len(LIGHT)]


def _lines(axes: Axes, chart: Chart) -> None:
    axes.grid(axis="y")
    ends: list[tuple[Any, float, str, str]] = []
    for series, place in zip(chart.series, colour_places(chart.series), strict=True):
        x, y = list(series.x), np.asarray(series.y, float)
        few = len(x) <= 24
        axes.plot(
            x,
            y,
            color=_ink(place),
            linestyle="--" if series.dashed else "-",
            marker=series.mark if few and not series.dashed else "",
            markersize=4,
            zorder=2 if place == GREY else 3,
        )
        if len(series.spread):
            spread = np.asarray(series.spread, float)
            axes.fill_between(x, y - spread, y + spread, color=_ink(place), alpha=0.15, linewidth=0)
        known = np.flatnonzero(np.isfinite(y))
        if len(known):
            ends.append((x[known[-1]], float(y[known[-1]]), series.name, _ink(place)))
    if len(chart.series) < 2 or not ends:
        return
    if len(chart.series) > 9 or len({end for end, *_ in ends}) > 1:
        axes.legend([s.name for s in chart.series], loc="best", fontsize=8, ncols=1 + len(chart.series) // 10)
        return
    low, high = chart.y_range or axes.get_ylim()
    heights = part_labels([end[1] for end in ends], 0.052 * (high - low))
    for (_, _, name, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            name,
            (1.0, height),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )


def _bars_count(chart: Chart) -> int:
    return sum(len(series.y) for series in chart.series) + len(chart.series[0].y if chart.series else ())


def _bars(axes: Axes, chart: Chart) -> None:
    """Draw bars that lie, so that their names can be read."""
    names = list(chart.series[0].x)
    thick = 0.8 / len(chart.series)
    values = np.array([value for series in chart.series for value in series.y], float)
    room = 0.01 * float(np.nanmax(np.abs(values), initial=0.0) or 1)
    for number, (series, place) in enumerate(zip(chart.series, colour_places(chart.series), strict=True)):
        where = np.arange(len(names)) + (number - (len(chart.series) - 1) / 2) * thick
        errors = list(series.spread) if len(series.spread) else None
        axes.barh(
            where,
            list(series.y),
            thick * 0.92,
            xerr=errors,
            color=_ink(place),
            label=series.name,
            error_kw={"ecolor": INK["soft"], "elinewidth": 1},
        )
        for step, (height, value) in enumerate(zip(where, series.y, strict=True)):
            end = value + (errors[step] if errors else 0.0)
            words = series.words[step] if len(series.words) else f"{value:.4g}"
            if np.isfinite(value):
                axes.text(max(end, 0) + room, height, words, va="center", fontsize=7.5, color=INK["soft"])
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


def legend_columns(names: Sequence[str], letters: int = 60) -> int:
    """Return how many names of a legend stand beside each other.

    >>> legend_columns(["given", "none"]), legend_columns(["COSMIC, the authors' program"] * 7)
    (2, 2)
    """
    return max(1, min(4, len(names), letters // (max(map(len, names)) + 2)))


def _points(axes: Axes, chart: Chart) -> None:
    for number, corners in enumerate(chart.outlines):
        across, up = zip(*corners, strict=True)
        axes.fill(across, up, color=_ink(number), alpha=0.1, linewidth=0, zorder=1)
        axes.plot(across, up, color=_ink(number), alpha=0.6, linewidth=0.9, zorder=1)
    for number, (series, place) in enumerate(zip(chart.series, colour_places(chart.series), strict=True)):
        mark = mark_of(series, number if series.colour is None else place)
        size = 170 if mark == "*" else 26
        crossed = mark == "x"
        axes.scatter(
            list(series.x),
            list(series.y),
            s=size,
            marker=mark,
            label=series.name,
            alpha=0.92,
            zorder=6 if size > 99 else 3,
            color=_ink(place),
            edgecolors=_ink(place) if crossed else "white",
            linewidths=1.3 if crossed else 0.6,
        )
        for words, x, y in zip(series.words if series.told else (), series.x, series.y, strict=False):
            axes.annotate(words, (x, y), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=7.5, zorder=5)
    if chart.named:
        _name_clouds(axes, chart.series)
    elif len(chart.series) > 1:
        below = 0 if chart.bare else -0.14  # under the ticks and the title of the axis, where there are any
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(0, below),
            ncols=legend_columns([one.name for one in chart.series]),
            fontsize=8,
        )


def mark_of(series: Series, place: int) -> str:
    """Return the mark of a series of points: its own, or, past the colours, the next one."""
    return series.mark if series.mark != "o" or place < 0 else MARKS[place // len(LIGHT) % len(MARKS)]


def _name_clouds(axes: Axes, series: Sequence[Series]) -> None:
    named = [(one, place) for one, place in zip(series, colour_places(series), strict=True) if one.name and len(one.x)]
    middles = [(float(np.median(np.asarray(one.x, float))), float(np.median(one.y))) for one, _ in named]
    low, high = axes.get_ylim()
    heights = part_near(middles, axes.get_xlim(), (low, high))
    for (one, place), (x, _), height in zip(named, middles, heights, strict=True):
        axes.text(
            x,
            height,
            one.name,
            fontsize=8,
            ha="center",
            va="center",
            color=_ink(place),
            weight="bold",
            zorder=7,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )


def part_near(
    middles: Sequence[tuple[float, float]], width: tuple[float, float], height: tuple[float, float]
) -> list[float]:
    """Move names up or down where others lie at the same place; those far to the side do not matter."""
    heights = [y for _, y in middles]
    reach, gap = 0.16 * (width[1] - width[0]), 0.034 * (height[1] - height[0])
    for _ in range(4):
        for x, _ in middles:
            near = [other for other, (side, _) in enumerate(middles) if abs(side - x) < reach]
            for other, moved in zip(near, part_labels([heights[other] for other in near], gap), strict=True):
                heights[other] = moved
    return heights


def heat_marks(chart: Chart) -> list[tuple[float, float, str]]:
    """Return the points upon a heat map: column, row, name."""
    return [
        (float(x), float(y), series.name) for series in chart.series for x, y in zip(series.x, series.y, strict=True)
    ]


def cell_text(value: float, form: str) -> str:
    """Return what is written into a cell: nothing where it would be a zero."""
    words = f"{value:{form}}" if np.isfinite(value) else ""
    return words if words.strip("-0.") else ""


def _heat(axes: Axes, chart: Chart) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    cells = np.asarray(chart.cells, float)
    colours = LinearSegmentedColormap.from_list("ours", list(SURFACE if chart.series else HEAT))
    image = axes.imshow(
        cells, cmap=colours, aspect="auto" if chart.series else "equal", origin="lower" if chart.series else "upper"
    )
    for side in axes.spines.values():
        side.set_visible(False)
    for names, ticks, axis in ((chart.column_names, axes.set_xticks, 1), (chart.row_names, axes.set_yticks, 0)):
        shown = range(
            0, cells.shape[axis], max(1, cells.shape[axis] // 40 if not chart.series else cells.shape[axis] // 10)
        )
        ticks(list(shown), [str(names[place]) for place in shown])
    if not chart.series and max(map(len, map(str, chart.column_names)), default=0) > 3:
        axes.tick_params(axis="x", labelrotation=55)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.tick_params(length=0, labelsize=8 if cells.shape[0] < 25 else 6.5)
    if chart.cell_format:
        low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
        for (row, column), value in np.ndenumerate(cells):
            if words := cell_text(value, chart.cell_format):
                share = (value - low) / ((high - low) or 1)
                ink = "white" if share > 0.5 else INK["ink"]
                size = 7.5 if cells.shape[0] < 16 else 5.5
                axes.text(column, row, words, ha="center", va="center", color=ink, fontsize=size)
    for place, (column, row, words) in enumerate(heat_marks(chart)):
        shade = SURFACE[min(6, int(7 * (cells[round(row), round(column)] - cells.min()) / (np.ptp(cells) or 1)))]
        ink = "white" if is_dark(shade) else INK["ink"]
        axes.plot(
            [column], [row], marker="o", markersize=8, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.8
        )
        left = column > 0.6 * cells.shape[1]
        axes.annotate(
            words,
            (column, row),
            xytext=(-9 if left else 9, 9 if place % 2 == 0 and row < 0.9 * len(cells) else -9),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8.5,
            color=ink,
            weight="bold",
        )
    axes.figure.colorbar(image, ax=axes, label=chart.z_title, shrink=0.8, pad=0.02).outline.set_visible(False)


def _network(axes: Axes, chart: Chart) -> None:
    places = node_places(chart)
    for number, group in enumerate(chart.groups):
        outline = surround(places[list(group)], hull_room(len(places)))
        axes.fill(outline[:, 0], outline[:, 1], color=_ink(number), alpha=0.13, linewidth=0, zorder=1)
        axes.plot(outline[:, 0], outline[:, 1], color=_ink(number), alpha=0.5, linewidth=0.9, zorder=1)
    for a, b in chart.links:
        axes.plot(*places[[a, b]].T, color=INK["grey"], linewidth=0.8, alpha=0.6, zorder=2)
    first, size = 0, 6.5 if len(places) > 45 else 8
    for series, place in zip(chart.series, colour_places(chart.series), strict=True):
        axes.scatter(
            list(series.x),
            list(series.y),
            s=46,
            color=_ink(place),
            marker=series.mark,
            edgecolors="white",
            linewidths=0.8,
            zorder=3,
            label=series.name,
        )
        for words, (x, y) in zip(series.words, places[first : first + len(series.x)], strict=False):
            axes.annotate(
                words,
                (x, y),
                xytext=(0, -8),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=size,
                zorder=4,
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.6},
            )
        first += len(series.x)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    if len(chart.series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), ncols=3, fontsize=8)


def node_places(chart: Chart) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return where the nodes of all series lie, one series after the other, [n, 2]."""
    x = [float(value) for series in chart.series for value in series.x]
    y = [float(value) for series in chart.series for value in series.y]
    return np.stack([x, y], axis=1)


def hull_room(nodes: int) -> float:
    """Return how far a clique's outline stays away from its nodes, in a picture from -1 to 1."""
    return float(np.clip(0.32 / np.sqrt(max(nodes, 1)), 0.025, 0.08))


def _pictures(chart: Chart) -> Figure:
    """Lay pictures out in rows, each with its caption below; sizes are in inches, so that no words meet."""
    from matplotlib.figure import Figure

    columns = min(chart.per_row, max(1, len(chart.pictures)))
    size, gap, line = (1.75 if columns < 6 else 1.4), 0.16, 0.135
    letters = int(size * 15)
    captions = [_wrapped(caption, letters) for _, caption in chart.pictures]
    rows = [range(first, min(first + columns, len(captions))) for first in range(0, len(captions), columns)]
    heights = [size + gap + line * max(len(captions[place][0] + captions[place][1]) for place in row) for row in rows]
    width = columns * (size + gap) - gap
    head = textwrap.wrap(chart.title, int(width * 11))
    height = sum(heights) + 0.1 + 0.2 * len(head)
    figure = Figure(figsize=(width, height))
    for place, words in enumerate(head):
        figure.text(0, 1 - 0.2 * place / height, words, va="top", weight="bold", fontsize=11)
    down = 0.1 + 0.2 * len(head)
    for row, tall in zip(rows, heights, strict=True):
        for place in row:
            left, top = (place - row[0]) * (size + gap) / width, 1 - down / height
            axes = figure.add_axes((left, top - size / height, size / width, size / height))
            axes.axis("off")
            pixels = np.asarray(chart.pictures[place][0])
            axes.imshow(pixels, interpolation="nearest" if len(pixels) > 64 else "bicubic")
            first, rest = captions[place]
            under = top - (size + 0.05) / height
            figure.text(left, under, "\n".join(first), va="top", fontsize=7.5, weight="bold", linespacing=1.2)
            under -= line * len(first) / height
            figure.text(left, under, "\n".join(rest), va="top", fontsize=7, color=INK["soft"], linespacing=1.2)
        down += tall
    return figure


def _wrapped(caption: str, letters: int) -> tuple[list[str], list[str]]:
    head, *rest = caption.split("\n")
    return textwrap.wrap(head, letters), [part for line in rest for part in textwrap.wrap(line, letters)]


KINDS: Mapping[str, Callable[[Axes, Chart], None]] = {
    "lines": _lines,
    "bars": _bars,
    "points": _points,
    "heat": _heat,
    "network": _network,
}
