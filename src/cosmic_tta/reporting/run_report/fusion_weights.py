"""Accuracy over the fusion weights of COSMIC's branches. Only labels can show it, so it is marked as oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Ints
from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, slug
from cosmic_tta.reporting.run_report.selection import first_run_per_method

BRANCHES = ("zero_shot", "css", "afv")
WEIGHT_GRID = np.linspace(0, 10, 41)
MAX_SCORES = 1_500_000  # per branch; a longer stream is sampled evenly
FITTED_STEPS = 400  # from which the weights in use are estimated
MAX_RESIDUAL = 0.02  # of the scores' norm, for a fit of the weights that counts


def fusion_weights_section(runs: Sequence[SavedRun], suffix: str = "") -> ResultSet:
    """Return the accuracy surface of every run that has COSMIC's branches, with the weights in use marked."""
    fused = [run for run in first_run_per_method(runs) if run.labels is not None and set(BRANCHES) <= set(run.parts)]
    charts = [_surface_chart(run) for run in fused]
    notes = [
        "Oracle: this surface is computed from the labels of the test stream. No method can reach its maximum without "
        "labels. The method's own weights were set without labels."
    ]
    return ResultSet(
        slug("fusion-weights", suffix), f"Fusion surface (oracle){suffix}", charts=charts, notes=notes if charts else ()
    )


def _surface_chart(run: SavedRun) -> Chart:
    labels = np.asarray(run.labels)
    steps = np.flatnonzero(run.counted & (labels >= 0))
    max_steps = max(100, MAX_SCORES // len(run.class_names))
    if len(steps) > max_steps:
        steps = steps[np.linspace(0, len(steps) - 1, max_steps).astype(int)]
    cells = accuracy_surface([run.parts[name][steps] for name in BRANCHES], labels[steps])
    best = np.unravel_index(int(cells.argmax()), cells.shape)
    marks = [Series(f"oracle {cells.max():.1f}", [int(best[1])], [int(best[0])], marker="x")]
    remark = "The weights in use change along the stream, so they cannot be marked as one point."
    used = used_weights(run)
    if used is not None:
        own = 100 * run.report.metrics["acc1"]
        column, row = (min(1.0, weight / WEIGHT_GRID[-1]) * (len(WEIGHT_GRID) - 1) for weight in used)
        marks.append(Series(f"{run.report.preset} {own:.1f}", [column], [row], marker="*"))
        remark = f"The label-free weights in use (median over the stream) are {used[0]:.2f} and {used[1]:.2f}."
    names = [f"{weight:g}" for weight in WEIGHT_GRID]
    return Chart(
        slug("fusion-oracle", run.report.pack, run.report.title),
        f"{run.report.title}: accuracy over fusion weights (oracle)",
        "heatmap",
        "β₂, weight of CSS",
        "β₃, weight of AFV",
        cells=cells.tolist(),
        row_names=names,
        column_names=names,
        z_title="accuracy (%)",
        series=marks,
        note=f"The weight of zero-shot, β₁, is 1. {remark}",
    )


def accuracy_surface(parts: Sequence[NDArray[np.float32]], labels: Ints) -> NDArray[np.float64]:
    """Return the accuracy in percent for every pair of weights of the second and third branch, [β₃, β₂]."""
    cells = np.empty((len(WEIGHT_GRID), len(WEIGHT_GRID)))
    for row, third in enumerate(WEIGHT_GRID):
        base = parts[0] + np.float32(third) * parts[2]
        for column, second in enumerate(WEIGHT_GRID):
            cells[row, column] = 100 * ((base + np.float32(second) * parts[1]).argmax(axis=1) == labels).mean()
    return cells


def used_weights(run: SavedRun) -> tuple[float, float] | None:
    """Estimate the weights of CSS and AFV relative to zero-shot from a run's scores.

    Returns:
        The medians over the stream; None if a weighted sum does not explain the scores of most steps.
    """
    steps = np.unique(np.linspace(0, len(run.order) - 1, min(FITTED_STEPS, len(run.order))).astype(int))
    fitted = []
    for step in steps:
        branches = np.stack([run.parts[name][step] for name in BRANCHES], axis=1).astype(np.float64)  # [K, 3]
        scores = run.scores[step].astype(np.float64)
        weights, *_ = np.linalg.lstsq(branches, scores, rcond=1e-6)
        residual = np.linalg.norm(branches @ weights - scores) / np.linalg.norm(scores)
        if residual < MAX_RESIDUAL and weights[0] > 1e-6:
            fitted.append(weights[1:] / weights[0])
    if len(fitted) < len(steps) / 2:
        return None
    second, third = np.maximum(np.median(fitted, axis=0), 0)
    return float(second), float(third)
