"""What was taken for what, and how far a probability can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosmic_tta.charts import Chart, Outcome, Series, slug
from cosmic_tta.ops import Array, Ints
from cosmic_tta.portraits.choice import colour_of, featured, one_each
from cosmic_tta.runs import SavedRun

MATRIX = 30  # classes up to which the whole matrix is shown
PAIRS = 10
BINS = 15
FEWEST = 10  # answers that a bin needs to be shown


def answers(runs: Sequence[SavedRun], suffix: str = "") -> Outcome:
    """Return confusion and calibration of a pack's runs."""
    judged = [run for run in one_each(runs) if run.labels is not None and _valid(run).any()]
    charts = []
    if judged:
        shown = featured(judged)
        matrix, pairs = _confusion(shown)
        charts = [*matrix, _calibration(judged), *pairs]
    return Outcome(slug("answers", suffix), f"Confusion and calibration{suffix}", charts=charts)


def _valid(run: SavedRun) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    labels = np.full(len(run.order), -1) if run.labels is None else run.labels
    valid: np.ndarray[tuple[int], np.dtype[np.bool_]] = run.counted & (labels >= 0)
    return valid


def _matrix(given: Ints, truth: Ints, classes: int) -> Ints:
    """Count which class was answered for which, [truth, answer]."""
    counts: Ints = np.bincount(truth * classes + given, minlength=classes**2).reshape(classes, classes)
    return counts


def _confusion(run: SavedRun) -> tuple[list[Chart], list[Chart]]:
    """Return the whole matrix, where it can be read, and the pairs most often confused."""
    valid, names = _valid(run), run.class_names
    truth = np.asarray(run.labels)[valid]
    counts = _matrix(run.answers[valid], truth, len(names))
    before = _matrix(run.parts["zero_shot"].argmax(axis=1)[valid], truth, len(names))
    title, pack = run.report.title, run.report.pack
    matrix, bars = [], []
    if len(names) <= MATRIX:
        share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        matrix.append(
            Chart(
                slug("confusion", pack),
                f"Confusion of {title}",
                "heat",
                "answered",
                "true class",
                cells=share.tolist(),
                row_names=names,
                column_names=names,
                z_title="% of the true class",
                cell_format=".0f",
                note="Each row is a true class and adds up to 100.",
            )
        )
    wrong = counts + before
    np.fill_diagonal(wrong, 0)
    order = [int(place) for place in np.argsort(-wrong, axis=None, kind="stable")[:PAIRS] if wrong.flat[int(place)]]
    if order:
        pairs = [f"{names[place // len(names)]} → {names[place % len(names)]}" for place in order]
        rows = (("zero-shot", before, -1), (title, counts, 0))
        series = [Series(name, pairs, [int(c.flat[p]) for p in order], colour=colour) for name, c, colour in rows]
        bars.append(
            Chart(
                slug("confused", pack),
                "The pairs most often confused",
                "bars",
                "",
                "images",
                series,
                note="True class → what was answered.",
            )
        )
    return matrix, bars


def _calibration(runs: Sequence[SavedRun]) -> Chart:
    series = [Series("as sure as right", [0, 100], [0, 100], colour=-1, dashed=True)]
    for run in runs:
        valid = _valid(run)
        hits = (run.answers == run.labels)[valid]
        x, y, words = reliability(run.scores.max(axis=1)[valid], hits)
        name = f"{run.report.title}, ECE {100 * run.report.metrics['ece']:.1f}"
        series.append(
            Series(
                name,
                x,
                y,
                words=words,
                colour=colour_of(run, runs),
                mark="s" if run.report.method == "zero_shot" else "o",
            )
        )
    return Chart(
        slug("calibration", runs[0].report.pack),
        "How far a probability can be trusted",
        "lines",
        "mean probability of the answer, %",
        "right, %",
        series,
        square=True,
        x_range=(0, 100),
        y_range=(0, 100),
        note=f"Answers in {BINS} bins by their probability; a bin with fewer than {FEWEST} is left out. Below the "
        "diagonal a method is too sure of itself.",
    )


def reliability(sure: Array, hits: Array) -> tuple[list[float], list[float], list[str]]:
    """Return mean probability and share of right answers of each bin, in percent, and words for it."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    x, y, words = [], [], []
    for number in np.unique(bins):
        inside = bins == number
        if inside.sum() >= FEWEST:
            x.append(100 * float(sure[inside].mean()))
            y.append(100 * float(hits[inside].mean()))
            words.append(f"{x[-1]:.0f} % sure, {y[-1]:.0f} % right, {int(inside.sum())} images")
    return x, y, words
