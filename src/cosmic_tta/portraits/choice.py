"""Which runs stand for which, and names for files."""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_tta.runs import SavedRun

COLOURS = {"zero_shot": -1, "cosmic": 0, "bayes_means": 1, "tda": 2, "dmn": 3, "tip_adapter": 4}
FEATURED = "cosmic"


def by_pack(runs: Sequence[SavedRun]) -> dict[str, list[SavedRun]]:
    """Group runs by the pack that they ran on."""
    groups: dict[str, list[SavedRun]] = {}
    for run in runs:
        groups.setdefault(run.report.pack, []).append(run)
    return groups


def one_each(runs: Sequence[SavedRun]) -> list[SavedRun]:
    """Take the first run of each method: of the first kind of stream, aux and seed."""
    first = runs[0].report
    same = [run for run in runs if (run.report.order, run.report.aux) == (first.order, first.aux)]
    return list({run.report.title: run for run in reversed(same)}.values())[::-1]


def featured(runs: Sequence[SavedRun]) -> SavedRun:
    """Choose the run that is shown in detail: the first of COSMIC, else of whatever is no zero-shot."""
    of_cosmic = [run for run in runs if run.report.method == FEATURED]
    adapted = [run for run in runs if run.report.method != "zero_shot"]
    return [*of_cosmic, *adapted, *runs][0]


def colour_of(run: SavedRun, others: Sequence[SavedRun]) -> int | None:
    """Return a method's own colour; of several runs of one method only the first has it."""
    same = [other.report.title for other in others if other.report.method == run.report.method]
    return COLOURS.get(run.report.method) if same[0] == run.report.title else None
