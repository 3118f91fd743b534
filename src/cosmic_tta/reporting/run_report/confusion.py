"""Confusion between classes, and calibration of the probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints
from cosmic_tta.evaluation.metrics import ECE_BINS
from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, slug
from cosmic_tta.reporting.run_report.selection import colour_of, featured_run, first_run_per_method

MAX_MATRIX_CLASSES = 30  # with more classes the matrix cannot be read
MAX_PAIRS = 10
MIN_BIN_SIZE = 10  # predictions; a smaller bin is not shown


def confusion_section(runs: Sequence[SavedRun], suffix: str = "") -> ResultSet:
    """Return confusion and calibration of the runs of one pack."""
    labelled = [run for run in first_run_per_method(runs) if run.labels is not None and _counted_steps(run).any()]
    charts: list[Chart] = []
    if labelled:
        featured = featured_run(labelled)
        charts = [*_matrix_charts(featured), _calibration_chart(labelled), *_pair_charts(featured)]
    return ResultSet(slug("confusion", suffix), f"Confusion and calibration{suffix}", charts=charts)


def _counted_steps(run: SavedRun) -> Bools:
    """Return the steps that count and whose label is a class of the task."""
    labels = np.full(len(run.order), -1) if run.labels is None else run.labels
    counted: Bools = run.counted & (labels >= 0)
    return counted


def _confusion_matrices(run: SavedRun) -> tuple[Ints, Ints]:
    """Return the confusion matrices of the method and of zero-shot, [true class, prediction]."""
    steps, classes = _counted_steps(run), len(run.class_names)
    labels = np.asarray(run.labels)[steps]

    def count(predictions: Ints) -> Ints:
        pairs = labels * classes + predictions[steps]
        counts: Ints = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
        return counts

    return count(run.answers), count(run.parts["zero_shot"].argmax(axis=1))


def _matrix_charts(run: SavedRun) -> list[Chart]:
    """Return the confusion matrix, if it has few enough classes to be read."""
    if len(run.class_names) > MAX_MATRIX_CLASSES:
        return []
    counts, _ = _confusion_matrices(run)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return [
        Chart(
            slug("confusion", run.report.pack),
            f"Confusion matrix of {run.report.title}",
            "heatmap",
            "predicted class",
            "true class",
            cells=shares.tolist(),
            row_names=run.class_names,
            column_names=run.class_names,
            z_title="% of the true class",
            cell_format=".0f",
            note="Each row is a true class and sums to 100.",
        )
    ]


def _pair_charts(run: SavedRun) -> list[Chart]:
    """Return the pairs of classes that are confused most often, by the method and by zero-shot together."""
    counts, zero_shot = _confusion_matrices(run)
    names, errors = run.class_names, counts + zero_shot
    np.fill_diagonal(errors, 0)
    order = [int(cell) for cell in np.argsort(-errors, axis=None, kind="stable")[:MAX_PAIRS] if errors.flat[int(cell)]]
    if not order:
        return []
    pairs = [f"{names[cell // len(names)]} → {names[cell % len(names)]}" for cell in order]
    series = [
        Series(name, pairs, [int(matrix.flat[cell]) for cell in order], colour=colour)
        for name, matrix, colour in (("zero-shot", zero_shot, -1), (run.report.title, counts, 0))
    ]
    return [
        Chart(
            slug("confused", run.report.pack),
            "Most confused pairs of classes",
            "bars",
            "",
            "images",
            series,
            note="True class → predicted class.",
        )
    ]


def _calibration_chart(runs: Sequence[SavedRun]) -> Chart:
    series = [Series("perfect calibration", [0, 100], [0, 100], colour=-1, dashed=True)]
    for run in runs:
        steps = _counted_steps(run)
        correct = (run.answers == run.labels)[steps]
        x, y, texts = reliability(run.scores.max(axis=1)[steps], correct)
        name = f"{run.report.title}, ECE {100 * run.report.metrics['ece']:.1f}"
        marker = "s" if run.report.method == "zero_shot" else "o"
        series.append(Series(name, x, y, point_texts=texts, colour=colour_of(run, runs), marker=marker))
    return Chart(
        slug("calibration", runs[0].report.pack),
        "Reliability diagram",
        "lines",
        "mean predicted probability (%)",
        "accuracy (%)",
        series,
        equal_axes=True,
        x_range=(0, 100),
        y_range=(0, 100),
        note=f"Predictions in {ECE_BINS} bins by their probability; bins with fewer than {MIN_BIN_SIZE} are not shown. "
        "Below the diagonal a method is overconfident.",
    )


def reliability(probabilities: Array, correct: Array) -> tuple[list[float], list[float], list[str]]:
    """Return mean probability and accuracy of each bin in percent, and a text about it."""
    bins = np.minimum((probabilities * ECE_BINS).astype(int), ECE_BINS - 1)
    x, y, texts = [], [], []
    for number in np.unique(bins):
        inside = bins == number
        if inside.sum() >= MIN_BIN_SIZE:
            x.append(100 * float(probabilities[inside].mean()))
            y.append(100 * float(correct[inside].mean()))
            texts.append(f"probability {x[-1]:.0f} %, accuracy {y[-1]:.0f} %, {int(inside.sum())} images")
    return x, y, texts
