"""Selects the runs that a section shows, and the colour of each method."""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_tta.evaluation.run_folder import SavedRun

COLOUR_BY_METHOD = {"zero_shot": -1, "cosmic": 0, "bayes_means": 1, "tda": 2, "dmn": 3, "tip_adapter": 4}
FEATURED_METHOD = "cosmic"


def group_by_pack(runs: Sequence[SavedRun]) -> dict[str, list[SavedRun]]:
    """Group runs by the name of their pack."""
    groups: dict[str, list[SavedRun]] = {}
    for run in runs:
        groups.setdefault(run.report.pack, []).append(run)
    return groups


def first_run_per_method(runs: Sequence[SavedRun]) -> list[SavedRun]:
    """Return the first run of each method, among those with the order and auxiliary features of the first run."""
    first = runs[0].report
    same = [run for run in runs if (run.report.order, run.report.aux) == (first.order, first.aux)]
    return list({run.report.title: run for run in reversed(same)}.values())[::-1]


def featured_run(runs: Sequence[SavedRun]) -> SavedRun:
    """Return the run that is shown in detail: the first of COSMIC, else the first of a method that adapts."""
    of_cosmic = [run for run in runs if run.report.method == FEATURED_METHOD]
    adapted = [run for run in runs if run.report.method != "zero_shot"]
    return [*of_cosmic, *adapted, *runs][0]


def colour_of(run: SavedRun, others: Sequence[SavedRun]) -> int | None:
    """Return the colour of a run's method; of several runs of one method only the first has it."""
    same = [other.report.title for other in others if other.report.method == run.report.method]
    return COLOUR_BY_METHOD.get(run.report.method) if same[0] == run.report.title else None
