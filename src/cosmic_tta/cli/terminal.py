"""What commands print: sentences, tables, progress on stderr, JSON."""

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

from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.evaluator import EvaluationProgress
from cosmic_tta.reporting import chart_data, tables

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
    """Print a table, numbers aligned to the right."""
    drawn = Table(title_justify="left", title_style="italic", header_style="bold", box=SIMPLE_HEAD)
    drawn.title = None if title is None else Text(title)
    for index, name in enumerate(columns):
        cells = [row[index] for row in rows]
        numeric = all(cell[:1] in "+-–0123456789" for cell in cells)
        prose = index == len(columns) - 1 and not numeric  # the only column that may wrap
        min_width = None if prose else max(map(len, (name, *cells)))
        drawn.add_column(name, justify="right" if numeric else "left", min_width=min_width, no_wrap=not prose)
    for row in rows:
        drawn.add_row(*map(Text, row))  # names may contain what rich takes for markup
    # Numbers never wrap: on a narrow terminal the whole line does.
    needed = sum((column.min_width or 10) + 3 for column in drawn.columns) + 1
    (out if needed <= out.width else Console(width=needed, highlight=False)).print(drawn)


def show_table(table: chart_data.Table) -> None:
    """Print a table of an experiment or of reports, with its note below."""
    print_table(table.columns, tables.text_rows(table), table.title)
    if table.note:
        say(table.note)


def refuse_unwritable(file: str | Path | None) -> None:
    """Refuse, before any work, a file in a folder that cannot be written to."""
    folder = None if file is None or str(file) == STDOUT else Path(file).parent
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(f"cannot write {str(file)!r}: {str(folder)!r} is not a folder that can be written to.")


def write_json(value: Any, file: str | None) -> None:
    """Write a value to a file, to standard output for `-`, or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    if file == STDOUT:
        print(text)
    elif file is not None:
        try:
            # A file name that is not UTF-8 has code points that cannot be encoded; escaped, they are JSON.
            Path(file).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError(f"cannot write {file!r}: {error.strerror}.") from error


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[EvaluationProgress], None]]:
    """Show a progress bar on stderr if it is a terminal, with the accuracies so far."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[so_far]}"),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=None, so_far="")

        def watch(step: EvaluationProgress) -> None:
            so_far = "" if step.acc1 is None else f"{step.acc1:.1%} (zero-shot {step.zero_shot_acc1:.1%})"
            bar.update(task, completed=step.done, total=step.total, so_far=so_far)

        yield watch


@contextmanager
def counter(title: str, unit: str) -> Iterator[Callable[[int, int, str], None]]:
    """Count long work on stderr, with rate and time left: a bar on a terminal, else a line per minute."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    pace = ProgressPace()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=None, rate="", remark="")

        def count(done: int, total: int, remark: str) -> None:
            pace.update(done)
            rate = f"{pace.rate:.1f} {unit}/s" if pace.rate else ""
            bar.update(task, completed=done, total=total, rate=rate, remark=remark)
            if not err.is_terminal and pace.is_log_time():
                left = f", about {(total - done) / pace.rate / 60:.0f} min left" if pace.rate else ""
                line = f"{title}: {done:,} of {total:,}, {rate}{left}{', ' + remark if remark else ''}"
                err.print(line, markup=False, soft_wrap=True)

        yield count


class ProgressPace:
    """The rate of long work since the first count, and when to log it."""

    def __init__(self) -> None:
        self._start: tuple[float, int] | None = None
        self._logged = time.monotonic()
        self.rate = 0.0

    def update(self, done: int) -> None:
        """Record how much is done."""
        now = time.monotonic()
        self._start = self._start or (now, done)
        if now > self._start[0]:
            self.rate = (done - self._start[1]) / (now - self._start[0])

    def is_log_time(self) -> bool:
        """Return true once per minute."""
        is_time = time.monotonic() - self._logged >= LOG_EVERY
        if is_time:
            self._logged = time.monotonic()
        return is_time
