"""How `cosmic predict` prints its answers: a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cosmic_tta.cli.terminal import print_table, say


class PredictionOutput(Protocol):
    """Prints one answer after another; `close` prints what has to wait for the last."""

    def add(self, row: Mapping[str, Any], reasons: Sequence[str]) -> None:
        """Take an answer, `{"path", "answers"}`, and the reasons for it."""
        ...

    def close(self) -> None:
        """End the output."""
        ...


class NoOutput:
    """Prints nothing; the answers are written as one JSON document."""

    def add(self, row: Mapping[str, Any], reasons: Sequence[str]) -> None:
        """Ignore an answer."""

    def close(self) -> None:
        """Do nothing."""


class TableOutput:
    """A table of all answers, and below it the reasons."""

    def __init__(self, top: int) -> None:
        self._rows: list[tuple[str, ...]] = []
        self._reasons: list[Sequence[str]] = []
        self._columns = ("image", *(("label", "score") * top))

    def add(self, row: Mapping[str, Any], reasons: Sequence[str]) -> None:
        """Add a row to the table."""
        cells = [cell for answer in row["answers"] for cell in (answer["label"], f"{answer['score']:.3f}")]
        self._rows.append((row["path"], *cells))
        self._reasons.append(reasons)

    def close(self) -> None:
        """Print the table."""
        if self._rows:
            print_table(self._columns[: len(self._rows[0])], self._rows)
        for cells, lines in zip(self._rows, self._reasons, strict=True):
            if lines:
                say("\n  ".join([f"{cells[0]}: {cells[1]}, because", *lines]))


class JsonLinesOutput:
    """A JSON object per line, as soon as it is known."""

    def __init__(self, top: int) -> None:
        pass

    def add(self, row: Mapping[str, Any], reasons: Sequence[str]) -> None:
        """Print an answer."""
        print(json.dumps(row, ensure_ascii=False), flush=True)

    def close(self) -> None:
        """Do nothing."""


class CsvOutput:
    """A line per image and rank."""

    def __init__(self, top: int) -> None:
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._writer.writerow(["path", "rank", "label", "score"])

    def add(self, row: Mapping[str, Any], reasons: Sequence[str]) -> None:
        """Print the lines of an image."""
        for rank, answer in enumerate(row["answers"], start=1):
            self._writer.writerow([row["path"], rank, answer["label"], f"{answer['score']:.6f}"])
        sys.stdout.flush()

    def close(self) -> None:
        """Do nothing."""


FORMATS: dict[str, Callable[[int], PredictionOutput]] = {
    "table": TableOutput,
    "jsonl": JsonLinesOutput,
    "csv": CsvOutput,
}
