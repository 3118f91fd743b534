"""The numbers that the paper prints. Those that contradict each other are flagged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cosmic_tta.reporting.chart_data import Cell, Table

CONTRADICTED_FLAG = "!"  # behind a number that another number of the paper contradicts


@dataclass(frozen=True)
class PublishedNumber:
    """One number of the paper."""

    value: float
    deviation: float | None
    oracle: bool  # tuned on labels
    contradicted: bool  # by another number of the paper
    percent: bool = True  # else a count or a time

    def __str__(self) -> str:
        deviation = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        value = f"{self.value:.2f}" if self.percent else f"{self.value:g}"
        return f"{value}{deviation}{' ' + CONTRADICTED_FLAG if self.contradicted else ''}"


@cache
def published_data() -> dict[str, Any]:
    """Return the content of published.json."""
    text = (files("cosmic_tta") / "reporting" / "paper" / "published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def reference(table: str) -> str:
    """Return the number of a table or figure in the paper.

    >>> reference("graph-ablation")
    'Table 4'
    """
    return str(published_data()["tables"][table]["reference"])


def published_number(table: str, row: str, column: str, backbone: str | None = None) -> PublishedNumber | None:
    """Return one number of a published table; None if the paper does not print it."""
    content = published_data()["tables"][table]
    if column not in content["columns"]:
        return None
    matching = [line for line in content["rows"] if line["row"] == row and backbone in (None, line["backbone"])]
    if not matching:
        return None
    line, index = matching[0], content["columns"].index(column)
    if line["values"][index] is None:
        return None
    untuned = column in content.get("untuned", ())
    return PublishedNumber(
        value=line["values"][index],
        deviation=line["deviation"][index] if "deviation" in line else None,
        oracle=(line.get("oracle", False) and not untuned) or column in line.get("oracle_columns", ()),
        contradicted=(table, row, column, line["backbone"]) in _contradicted_numbers(),
        percent=not untuned,
    )


@cache
def _contradicted_numbers() -> frozenset[tuple[str, str, str, str]]:
    return frozenset(
        (number["table"], number["row"], number["column"], number["backbone"])
        for contradiction in published_data()["contradictions"]
        for number in contradiction["figures"]
    )


def published_cells(table: str, row: str, column: str, backbone: str | None = None) -> tuple[Cell, Cell]:
    """Return a number as cells of the columns `published` and `published oracle`; one of the two is None."""
    number = published_number(table, row, column, backbone)
    if number is None:
        return None, None
    return (None, str(number)) if number.oracle else (str(number), None)


def contradiction_notes(table: str) -> list[str]:
    """Return one note per contradiction that concerns a table."""
    notes = []
    for contradiction in published_data()["contradictions"]:
        if any(number["table"] == table for number in contradiction["figures"]):
            values = ", ".join(
                f"{number['value']:.2f} in {reference(number['table'])}" for number in contradiction["figures"]
            )
            notes.append(
                f"{CONTRADICTED_FLAG} The paper contradicts itself on {contradiction['description']}: {values}. "
                f"{contradiction['remark']}"
            )
    return notes


def published_table(table: str, name: str) -> Table:
    """Return a table of the paper, with numbers that were tuned on labels in columns of their own."""
    content = published_data()["tables"][table]

    def cell(row: dict[str, Any], column: str, oracle: bool) -> str | None:
        number = published_number(table, row["row"], column, row["backbone"])
        return None if number is None or number.oracle != oracle else str(number)

    def columns_with(oracle: bool) -> list[str]:
        return [column for column in content["columns"] if any(cell(row, column, oracle) for row in content["rows"])]

    untuned, tuned = columns_with(oracle=False), columns_with(oracle=True)
    rows: list[tuple[Cell, ...]] = [
        (
            row["row"],
            row["backbone"],
            *(cell(row, column, False) for column in untuned),
            *(cell(row, column, True) for column in tuned),
        )
        for row in content["rows"]
    ]
    columns = ("published", "CLIP", *untuned, *(f"{column}, oracle" for column in tuned))
    return Table(name, f"As published, {content['reference']}: {content['description']}", columns, rows)
