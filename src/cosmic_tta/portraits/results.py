"""Tables of all runs, and accuracy over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosmic_tta import comparison
from cosmic_tta.charts import Chart, Outcome, Series, slug
from cosmic_tta.metrics import WINDOW, running_accuracy
from cosmic_tta.portraits.choice import colour_of
from cosmic_tta.runs import SavedRun

MOST_POINTS = 300  # of a curve


def results(runs: Sequence[SavedRun]) -> Outcome:
    """Return one table a pack and stream, the loss of each method against a shuffled stream, and curves over time."""
    reports = [run.report for run in runs]
    tables = [*comparison.results(reports), *comparison.losses(reports)]
    notes = [
        "Zero-shot has the same prompts as the method beside it. No method saw a label; accuracies are in percent."
    ]
    if any(run.labels is None for run in runs):
        notes.append("Where a pack has no labels there are answers, but no accuracies.")
    return Outcome("results", "Results", tables, _curves(runs), notes)


def _curves(runs: Sequence[SavedRun]) -> list[Chart]:
    streams: dict[tuple[str, str, str], dict[str, list[SavedRun]]] = {}
    for run in runs:
        if run.labels is not None and run.counted.any():
            key = (run.report.pack, run.report.order, run.report.aux)
            streams.setdefault(key, {}).setdefault(run.report.title, []).append(run)
    return [_curve(*key, methods) for key, methods in streams.items()]


def _curve(pack: str, order: str, aux: str, methods: dict[str, list[SavedRun]]) -> Chart:
    steps = min(int(run.counted.sum()) for group in methods.values() for run in group)
    window = max(1, min(WINDOW, steps // 4))
    begin = window // 2  # the first answers say nothing yet
    places = np.unique(np.linspace(begin, steps - 1, MOST_POINTS).astype(int))
    firsts = [group[0] for group in methods.values()]
    series = []
    for title, group in methods.items():
        curves = np.array([_accuracy(run, window)[places] for run in group])
        spread = 100 * curves.std(axis=0, ddof=1) if len(group) > 1 else ()
        y = 100 * curves.mean(axis=0)
        series.append(
            Series(title, (places + 1).tolist(), y.tolist(), list(spread), colour=colour_of(group[0], firsts))
        )
    series.sort(key=lambda one: -one.y[-1])
    told = order if aux == "given" else f"{order}, aux {aux}"
    seeds = max(len(group) for group in methods.values())
    note = f"Each point is the accuracy of the last {window} images."
    note += f" Mean of {seeds} seeds; the band is one standard deviation." if seeds > 1 else ""
    return Chart(
        slug("accuracy", pack, told),
        f"Accuracy over time: {pack}, {told}",
        "lines",
        "images seen",
        "accuracy, %",
        series,
        note=note,
    )


def _accuracy(run: SavedRun, window: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    labels = run.labels if run.labels is not None else run.answers
    hits: np.ndarray[tuple[int], np.dtype[np.bool_]] = (run.answers == labels)[run.counted]
    return running_accuracy(hits, window)
