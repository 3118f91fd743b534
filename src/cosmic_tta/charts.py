"""Tables and charts as plain data: what an experiment found, before anything is drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | float | int | None
Kind = Literal["lines", "bars", "points", "heat", "network", "pictures"]


@dataclass(frozen=True)
class Table:
    """Rows under columns. A number is shown as it is meant to be read: percentages come as percentages."""

    name: str  # of a file: lower case, hyphens
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line, one group of bars, one cloud of points."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    spread: Sequence[float] = ()  # deviation of y, where there is one
    words: Sequence[str] = ()  # what is told of each point
    mark: str = "o"  # of points: o, x, *, s, ^, D
    colour: int | None = None  # its place among the colours, -1 for grey; else the series' own place
    dashed: bool = False  # a line to compare with
    told: bool = False  # of points: the words are written beside them


@dataclass(frozen=True)
class Chart:
    """One figure. Which of the fields it uses follows from its kind.

    `lines`, `bars` (which lie: x are their names) and `points` have series; `heat` has cells [rows, columns] and their
    names, and perhaps series whose points lie upon it (column, row) with their names; `network` has nodes as points of
    its series, one series after the other, and links between them; `pictures` has rows of pictures
    [height, width, 3] with captions.
    """

    name: str  # of a file: lower case, hyphens
    title: str
    kind: Kind
    x_title: str = ""
    y_title: str = ""
    series: Sequence[Series] = ()
    cells: Sequence[Sequence[float]] = ()
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    groups: Sequence[Sequence[int]] = ()  # nodes drawn together: cliques
    pictures: Sequence[tuple[Any, str]] = ()
    note: str = ""
    per_row: int = 6  # pictures beside each other, where there is room
    z_title: str = ""  # of a heat map's colours
    cell_format: str = ""  # writes a number into each cell, such as ".0f"
    outlines: Sequence[Sequence[tuple[float, float]]] = ()  # closed curves behind points
    named: bool = False  # series of points have their name where they lie, not in a legend
    square: bool = False  # both axes on one scale
    bare: bool = False  # the axes' numbers mean nothing, as in t-SNE
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave: tables, charts, what is to be known about them, what could not be run and why."""

    name: str
    title: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def slug(*words: str) -> str:
    """Return a name for a file.

    >>> slug("accuracy", "mini, haze 4 of 5")
    'accuracy-mini-haze-4-of-5'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
