"""What the command shows: tables, a progress bar on stderr, JSON for machines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from cosmic_tta import charts, tables
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Progress as Step

STDOUT = "-"
LOG_EVERY = 60.0  # seconds between lines of progress where there is no terminal
out, err = Console(highlight=False), Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a sentence for people."""
    out.print(text, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """Print a sentence on stderr, in red where there are colours."""
    err.print(text, style="red", markup=False, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Draw a table, numbers to the right."""
    drawn = Table(title_justify="left", title_style="italic", header_style="bold", box=SIMPLE_HEAD)
    drawn.title = None if title is None else Text(title)
    for place, name in enumerate(columns):
        cells = [row[place] for row in rows]
        numeric = all(cell[:1] in "+-–0123456789" for cell in cells)
        prose = place == len(columns) - 1 and not numeric  # the one column that may be broken into lines
        least = None if prose else max(map(len, (name, *cells)))
        drawn.add_column(name, justify="right" if numeric else "left", min_width=least, no_wrap=not prose)
    for row in rows:
        drawn.add_row(*map(Text, row))  # as it is: no markup in a name counts
    # Numbers are never broken: on a narrow terminal the whole line wraps instead.
    needed = sum((column.min_width or 10) + 3 for column in drawn.columns) + 1
    (out if needed <= out.width else Console(width=needed, highlight=False)).print(drawn)


def show_table(table: charts.Table) -> None:
    """Draw a table of an experiment or of reports, its note below."""
    print_table(table.columns, tables.rows(table), table.title)
    if table.note:
        say(table.note)


def writable(file: str | Path | None) -> None:
    """Refuse, before any work, a file that cannot be written in the end."""
    folder = None if file is None or str(file) == STDOUT else Path(file).parent
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(f"cannot write {str(file)!r}: {str(folder)!r} is no folder that one can write to.")


def write_json(value: Any, file: str | None) -> None:
    """Write a value to a file, to standard output for `-`, or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    if file == STDOUT:
        print(text)
    elif file is not None:
        try:
            # A file name that is no UTF-8 has code points that no encoder takes; escaped, they are JSON.
            Path(file).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError(f"cannot write {file!r}: {error.strerror}.") from error


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[Step], None]]:
    """Show a bar on stderr while it is a terminal, with the accuracies so far."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[so_far]}"),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=None, so_far="")

        def watch(step: Step) -> None:
            so_far = "" if step.acc1 is None else f"{step.acc1:.1%} (zero-shot {step.zero_shot_acc1:.1%})"
            bar.update(task, completed=step.done, total=step.total, so_far=so_far)

        yield watch


@contextmanager
def counter(title: str, unit: str) -> Iterator[Callable[[int, int, str], None]]:
    """Count long work on stderr, with rate and time left: a bar on a terminal, else a line now and then."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    pace = Pace()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=None, rate="", remark="")

        def count(done: int, total: int, remark: str) -> None:
            pace.update(done)
            rate = f"{pace.rate:.1f} {unit}/s" if pace.rate else ""
            bar.update(task, completed=done, total=total, rate=rate, remark=remark)
            if not err.is_terminal and pace.is_due():
                left = f", about {(total - done) / pace.rate / 60:.0f} min left" if pace.rate else ""
                told = f"{title}: {done:,} of {total:,}, {rate}{left}{', ' + remark if remark else ''}"
                err.print(told, markup=False, soft_wrap=True)

        yield count


class Pace:
    """How fast work goes on, since the first count; and whether it is time to say so."""

    def __init__(self) -> None:
        self._start: tuple[float, int] | None = None
        self._told = time.monotonic()
        self.rate = 0.0

    def update(self, done: int) -> None:
        """Take note of how much is done."""
        now = time.monotonic()
        self._start = self._start or (now, done)
        if now > self._start[0]:
            self.rate = (done - self._start[1]) / (now - self._start[0])

    def is_due(self) -> bool:
        """Tell once a minute."""
        due = time.monotonic() - self._told >= LOG_EVERY
        if due:
            self._told = time.monotonic()
        return due
