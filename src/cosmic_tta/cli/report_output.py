"""Reports of runs on the terminal: a table per stream, intervals, losses; or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cosmic_tta.cli.terminal import STDOUT, say, show_table, write_json
from cosmic_tta.evaluation.metrics import CorrectSteps
from cosmic_tta.evaluation.report import Report, as_rows
from cosmic_tta.reporting.comparison import (
    accuracy_tables,
    detail_tables,
    difference_tables,
    group_by_stream,
    shuffle_loss_tables,
)

Outcome = tuple[Report, CorrectSteps]


def show_reports(
    reports: Sequence[Report], json_file: str | None, outcomes: Sequence[Outcome] = (), *, every_metric: bool = False
) -> None:
    """Print tables for people, or JSON for machines.

    Args:
        reports: one per run.
        json_file: where JSON is written; `-` is standard output, and then no table is printed.
        outcomes: which steps were right, per run with labels; for intervals between methods.
        every_metric: print all metrics instead of the usual ones.
    """
    if json_file != STDOUT:
        for group in group_by_stream(reports):
            _show_stream(group, [outcome for outcome in outcomes if outcome[0] in group], every_metric)
        for table in shuffle_loss_tables(reports):
            show_table(table)
    write_json(as_rows(reports), json_file)


def _show_stream(group: Sequence[Report], outcomes: Sequence[Outcome], every_metric: bool) -> None:
    (main_table,) = accuracy_tables(group)
    show_table(main_table)
    for table in (*detail_tables(group, every=every_metric), *difference_tables(outcomes)):
        show_table(replace(table, title=table.title.removeprefix(f"{main_table.title}: ")))
    for note in dict.fromkeys(report.note for report in group if report.note):
        say(f"{group[0].order}: {note}.\n")
