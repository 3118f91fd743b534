"""The paper's own figures, with those that contradict each other flagged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cosmic_tta.charts import Cell, Table

FLAG = "!"  # behind a figure that another of the paper's figures contradicts


@dataclass(frozen=True)
class Figure:
    """One printed number: whether it was tuned on labels, and whether the paper contradicts it elsewhere."""

    value: float
    spread: float | None
    oracle: bool
    contradicted: bool
    percent: bool = True  # else a count, or seconds

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        value = f"{self.value:.2f}" if self.percent else f"{self.value:g}"
        return f"{value}{spread}{' ' + FLAG if self.contradicted else ''}"


@cache
def data() -> dict[str, Any]:
    """Return the whole file."""
    text = (files("cosmic_tta") / "experiments" / "published.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def where(table: str) -> str:
    """Return where in the paper a table or figure is."""
    return str(data()["tables"][table]["where"])


def figure(table: str, row: str, column: str, backbone: str | None = None) -> Figure | None:
    """Return one figure of a table; None where the paper has none."""
    told = data()["tables"][table]
    for line in told["rows"]:
        if (
            line["row"] != row
            or (backbone is not None and line["backbone"] != backbone)
            or column not in told["columns"]
        ):
            continue
        place = told["columns"].index(column)
        value = line["values"][place]
        if value is None:
            return None
        tuned = line.get("oracle", False) and column not in told.get("untuned", ())
        return Figure(
            value,
            line["spread"][place] if "spread" in line else None,
            tuned or column in line.get("oracle_columns", ()),
            (table, row, column, line["backbone"]) in _contradicted(),
            column not in told.get("untuned", ()),
        )
    return None


@cache
def _contradicted() -> frozenset[tuple[str, str, str, str]]:
    return frozenset(
        (one["table"], one["row"], one["column"], one["backbone"])
        for claim in data()["contradictions"]
        for one in claim["figures"]
    )


def pair(table: str, row: str, column: str, backbone: str | None = None) -> tuple[Cell, Cell]:
    """Return a figure as two cells, for the columns `published` and `published oracle`: one of them stays empty."""
    found = figure(table, row, column, backbone)
    if found is None:
        return None, None
    return (None, str(found)) if found.oracle else (str(found), None)


def contradictions(table: str) -> list[str]:
    """Return what is to be known about a table's figures, one sentence a contradiction."""
    told = []
    for claim in data()["contradictions"]:
        if any(one["table"] == table for one in claim["figures"]):
            figures = ", ".join(f"{one['value']:.2f} in {where(one['table'])}" for one in claim["figures"])
            told.append(f"{FLAG} The paper contradicts itself, {claim['about']}: {figures}. {claim['remark']}")
    return told


def as_table(table: str, name: str) -> Table:
    """Return a published table as it is, tuned figures in columns of their own."""
    told = data()["tables"][table]
    stamped = [column for column in told["columns"] if any(_figure(table, row, column, True) for row in told["rows"])]
    plain = [column for column in told["columns"] if any(_figure(table, row, column, False) for row in told["rows"])]
    rows: list[tuple[Cell, ...]] = [
        (
            row["row"],
            row["backbone"],
            *(_figure(table, row, column, False) for column in plain),
            *(_figure(table, row, column, True) for column in stamped),
        )
        for row in told["rows"]
    ]
    columns = ("published", "CLIP", *plain, *(f"{column}, oracle" for column in stamped))
    return Table(name, f"As published, {told['where']}: {told['about']}", columns, rows)


def _figure(table: str, row: dict[str, Any], column: str, oracle: bool) -> str | None:
    found = figure(table, row["row"], column, row["backbone"])
    return None if found is None or found.oracle != oracle else str(found)
