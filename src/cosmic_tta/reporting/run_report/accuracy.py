"""The results of all runs: tables, and accuracy over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosmic_tta.evaluation.metrics import WINDOW, running_accuracy
from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, slug
from cosmic_tta.reporting.comparison import accuracy_tables, shuffle_loss_tables
from cosmic_tta.reporting.run_report.selection import colour_of

MAX_CURVE_POINTS = 300


def accuracy_section(runs: Sequence[SavedRun]) -> ResultSet:
    """Return one table per pack and stream, the losses on correlated streams, and accuracy over time."""
    reports = [run.report for run in runs]
    tables = [*accuracy_tables(reports), *shuffle_loss_tables(reports)]
    notes = ["No method saw a label. Zero-shot uses the prompts of the method beside it. Accuracies are in percent."]
    if any(run.labels is None for run in runs):
        notes.append("A pack without labels has predictions, but no accuracies.")
    return ResultSet("accuracy", "Results", tables, _curve_charts(runs), notes)


def _curve_charts(runs: Sequence[SavedRun]) -> list[Chart]:
    streams: dict[tuple[str, str, str], dict[str, list[SavedRun]]] = {}
    for run in runs:
        if run.labels is not None and run.counted.any():
            key = (run.report.pack, run.report.order, run.report.aux)
            streams.setdefault(key, {}).setdefault(run.report.title, []).append(run)
    return [_curve_chart(*key, methods) for key, methods in streams.items()]


def _curve_chart(pack: str, order: str, aux: str, methods: dict[str, list[SavedRun]]) -> Chart:
    """Return accuracy over time of the methods on one stream, as the mean over seeds."""
    steps = min(int(run.counted.sum()) for group in methods.values() for run in group)
    window = max(1, min(WINDOW, steps // 4))
    begin = window // 2  # the mean of the first few predictions is noise
    positions = np.unique(np.linspace(begin, steps - 1, MAX_CURVE_POINTS).astype(int))
    first_runs = [group[0] for group in methods.values()]
    series = []
    for title, group in methods.items():
        curves = np.array([_running_accuracy(run, window)[positions] for run in group])
        deviations = 100 * curves.std(axis=0, ddof=1) if len(group) > 1 else ()
        y, colour = 100 * curves.mean(axis=0), colour_of(group[0], first_runs)
        series.append(Series(title, (positions + 1).tolist(), y.tolist(), list(deviations), colour=colour))
    series.sort(key=lambda one: -one.y[-1])
    stream = order if aux == "given" else f"{order}, aux {aux}"
    seeds = max(len(group) for group in methods.values())
    note = f"Each point is the accuracy of the last {window} images."
    note += f" Mean of {seeds} seeds; the band is one standard deviation." if seeds > 1 else ""
    return Chart(
        slug("accuracy", pack, stream),
        f"Accuracy over time: {pack}, {stream}",
        "lines",
        "images seen",
        "accuracy (%)",
        series,
        note=note,
    )


def _running_accuracy(run: SavedRun, window: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    labels = run.labels if run.labels is not None else run.answers
    correct: np.ndarray[tuple[int], np.dtype[np.bool_]] = (run.answers == labels)[run.counted]
    return running_accuracy(correct, window)
