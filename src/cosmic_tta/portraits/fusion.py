"""Accuracy over the weights of COSMIC's branches, in hindsight: an oracle's view, since only labels show it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.charts import Chart, Outcome, Series, slug
from cosmic_tta.ops import Ints
from cosmic_tta.portraits.choice import one_each
from cosmic_tta.runs import SavedRun

BRANCHES = ("zero_shot", "css", "afv")
GRID = np.linspace(0, 10, 41)
MOST_SCORES = 1_500_000  # of one branch; beyond, steps spread over the stream stand for all
FITTED = 400  # steps that tell which weights were used
FAITHFUL = 0.02  # of the scores' length that weights may leave unexplained


def fusion(runs: Sequence[SavedRun], suffix: str = "") -> Outcome:
    """Return the surface of every run that has the branches of COSMIC, its own point marked."""
    fit = [run for run in one_each(runs) if run.labels is not None and set(BRANCHES) <= set(run.parts)]
    charts = [_surface(run) for run in fit]
    notes = [
        "Oracle: the labels of the very stream draw this surface, so its highest point is out of reach in use. "
        "The method's own weights were set without them."
    ]
    return Outcome(
        slug("fusion", suffix), f"Fusion surface (oracle){suffix}", charts=charts, notes=notes if charts else ()
    )


def _surface(run: SavedRun) -> Chart:
    labels = np.asarray(run.labels)
    steps = np.flatnonzero(run.counted & (labels >= 0))
    most = max(100, MOST_SCORES // len(run.class_names))
    if len(steps) > most:
        steps = steps[np.linspace(0, len(steps) - 1, most).astype(int)]
    cells = surface([run.parts[name][steps] for name in BRANCHES], labels[steps])
    best = np.unravel_index(int(cells.argmax()), cells.shape)
    marks = [Series(f"oracle {cells.max():.1f}", [int(best[1])], [int(best[0])], mark="x")]
    told = "The weights in use follow the stream and cannot be shown as one point."
    used = used_weights(run)
    if used is not None:
        own = 100 * run.report.metrics["acc1"]
        column, row = (min(1.0, weight / GRID[-1]) * (len(GRID) - 1) for weight in used)
        marks.append(Series(f"{run.report.preset} {own:.1f}", [column], [row], mark="*"))
        told = f"The label-free weights in use (median over the stream): {used[0]:.2f} and {used[1]:.2f}."
    names = [f"{weight:g}" for weight in GRID]
    return Chart(
        slug("fusion-oracle", run.report.pack, run.report.title),
        f"{run.report.title}: accuracy over weights (oracle)",
        "heat",
        "β₂, weight of CSS",
        "β₃, weight of AFV",
        cells=cells.tolist(),
        row_names=names,
        column_names=names,
        z_title="accuracy, %",
        series=marks,
        note=f"β₁ of zero-shot is 1. {told}",
    )


def surface(parts: Sequence[NDArray[np.float32]], labels: Ints) -> NDArray[np.float64]:
    """Return the accuracy in percent for every pair of weights of the second and third branch, [β₃, β₂]."""
    cells = np.empty((len(GRID), len(GRID)))
    for row, third in enumerate(GRID):
        base = parts[0] + np.float32(third) * parts[2]
        for column, second in enumerate(GRID):
            cells[row, column] = 100 * ((base + np.float32(second) * parts[1]).argmax(axis=1) == labels).mean()
    return cells


def used_weights(run: SavedRun) -> tuple[float, float] | None:
    """Find the weights of CSS and AFV beside zero-shot from the scores themselves; None if no weights explain them."""
    steps = np.linspace(0, len(run.order) - 1, min(FITTED, len(run.order))).astype(int)
    found = []
    for step in np.unique(steps):
        rows = np.stack([run.parts[name][step] for name in BRANCHES], axis=1).astype(np.float64)  # [K, 3]
        scores = run.scores[step].astype(np.float64)
        weights, *_ = np.linalg.lstsq(rows, scores, rcond=1e-6)
        left = np.linalg.norm(rows @ weights - scores) / np.linalg.norm(scores)
        if left < FAITHFUL and weights[0] > 1e-6:
            found.append(weights[1:] / weights[0])
    if len(found) < len(np.unique(steps)) / 2:
        return None
    second, third = np.maximum(np.median(found, axis=0), 0)
    return float(second), float(third)
