"""Tables and charts as plain data: what an experiment measured, independent of the library that draws it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | float | int | None
ChartKind = Literal["lines", "bars", "points", "heatmap", "network", "images"]


@dataclass(frozen=True)
class Table:
    """A table of text and numbers. Percentages are given as percentages, 81.3 and not 0.813.

    Args:
        name: Name for files: lower case with hyphens.
        title: Title above the table.
        columns: Column names. A column whose values were tuned on labels has `oracle` in its name.
        rows: One tuple per row, as long as `columns`; None is an absent value.
        note: Remark below the table.
        tags: Per filter of the report page, the choices under which the table is shown; see `write_page`.

    Examples:
        >>> table = Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.35), ("COSMIC", None)])
        >>> table.rows[0]
        ('TDA', 61.35)
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    note: str = ""
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """One line, one group of bars, or one set of points in a chart.

    Args:
        name: Name in the legend.
        x: Positions; names of the bars in a bar chart.
        y: Values, as many as `x`.
        deviations: Standard deviation of each value; empty if there is none.
        point_texts: Text of each point, shown on hover.
        marker: Marker of points, as matplotlib names it: o, x, *, s, ^ or D.
        colour: Index in the palette, -1 for grey; None takes the next free colour.
        dashed: Draw a dashed line without markers, for a reference.
        label_points: Also write `point_texts` beside the points.

    Examples:
        >>> Series("cosmic", [1, 2, 4], [60.1, 61.0, 61.4], deviations=[0.2, 0.1, 0.1]).marker
        'o'
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    deviations: Sequence[float] = ()
    point_texts: Sequence[str] = ()
    marker: str = "o"
    colour: int | None = None
    dashed: bool = False
    label_points: bool = False


@dataclass(frozen=True)
class Chart:
    """One figure. The kind says which fields it uses.

    - `lines` and `points` use `series`; `points` also `outlines` and `label_series`.
    - `bars` uses `series`; the bars are horizontal and `x` holds their names.
    - `heatmap` uses `cells`, `row_names` and `column_names`. Series on it mark positions (column, row).
    - `network` uses the points of `series`, in order, as nodes, with `links` and `groups`.
    - `images` uses `images`.

    Args:
        name: Name for files: lower case with hyphens.
        title: Title above the chart.
        kind: One of lines, bars, points, heatmap, network, images.
        x_title: Title of the x axis; of the bars' names in a bar chart.
        y_title: Title of the y axis; of the bars' lengths in a bar chart.
        series: Data of the chart.
        cells: Values of a heat map, [rows, columns].
        row_names: Names of the rows of a heat map.
        column_names: Names of the columns of a heat map.
        links: Pairs of nodes that are linked.
        groups: Nodes that share an outline, such as a clique.
        images: Pairs of pixels [height, width, 3] and caption; the caption's first line is its heading.
        note: Remark below the chart.
        images_per_row: Images per row, if the page is wide enough.
        z_title: Title of a heat map's colour scale.
        cell_format: Format of the number in each cell, such as ".0f"; empty writes none.
        outlines: Closed curves behind the points.
        label_series: Write each series' name at its points, instead of a legend.
        equal_axes: Draw both axes on one scale.
        hide_ticks: Hide the numbers on the axes, because they mean nothing, as in t-SNE.
        x_range: Limits of the x axis.
        y_range: Limits of the y axis.
        tags: Per filter of the report page, the choices under which the chart is shown.

    Examples:
        >>> chart = Chart("slots", "Slots per class", "lines", "slots", "accuracy (%)", [Series("a", [1, 2], [60, 61])])
        >>> chart.kind, len(chart.series)
        ('lines', 1)
    """

    name: str
    title: str
    kind: ChartKind
    x_title: str = ""
    y_title: str = ""
    series: Sequence[Series] = ()
    cells: Sequence[Sequence[float]] = ()
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    groups: Sequence[Sequence[int]] = ()
    images: Sequence[tuple[Any, str]] = ()
    note: str = ""
    images_per_row: int = 6
    z_title: str = ""
    cell_format: str = ""
    outlines: Sequence[Sequence[tuple[float, float]]] = ()
    label_series: bool = False
    equal_axes: bool = False
    hide_ticks: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ResultSet:
    """The results of one experiment, or one section of a report page.

    Args:
        name: Name for files: lower case with hyphens.
        title: Title of the section.
        tables: Its tables.
        charts: Its charts.
        notes: Remarks that apply to all of it, one sentence or paragraph each.
        missing: What could not be run, and why, one sentence each.
        settings: The settings that produced the results.

    Examples:
        >>> table = Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.35)])
        >>> ResultSet("mine", "My experiment", tables=[table]).tables[0].title
        'Accuracy'
    """

    name: str
    title: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def slug(*words: str) -> str:
    """Return words as the name of a file: lower case with hyphens.

    >>> slug("accuracy", "mini, haze 4 of 5")
    'accuracy-mini-haze-4-of-5'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
