"""Fusion weights searched on the labels, as the published program does it.

The weights are chosen by accuracy on the labels of the same stream that they are reported on. They cannot be used in
practice, so every result is named `oracle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.evaluator import EvaluationRun

# The weights that the published program tries for each branch. The weight of zero-shot is 1.
ORACLE_GRID = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
BRANCHES = (("css", "afv"), ("css",), ("clip_cache",))  # the first that a method has are fused with zero-shot
BLOCK_SCORES = 1 << 22  # scores that are fused at once


@dataclass(frozen=True)
class OracleFusion:
    """The best weights in hindsight, and the accuracy that they reach, a fraction of one."""

    oracle_acc1: float
    oracle_weights: dict[str, float]  # of zero_shot and the branches


def fused_branches(run: EvaluationRun) -> tuple[str, ...]:
    """Return the branches that a run fused with zero-shot."""
    for names in BRANCHES:
        if all(name in run.parts for name in names):
            return names
    raise InputError(
        f"{run.report.title} has no branches to fuse with zero-shot; it has {', '.join(run.parts)}. "
        "Use a run of cosmic or dmn."
    )


def oracle_fusion(run: EvaluationRun, labels: Ints, grid: Sequence[float] = ORACLE_GRID) -> OracleFusion:
    """Search the weights of a run's branches by accuracy on the labels.

    Args:
        run: A run of a method with branches: COSMIC (CSS and AFV) or DMN (its memory).
        labels: The labels of the whole pack.
        grid: The weights to try for every branch. Of equally good weights the first in grid order is taken.

    Returns:
        The best weights and their accuracy.

    Raises:
        InputError: The method has no branches.

    Example:
        >>> from cosmic_tta.evaluation import run_evaluation
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> pack = superclass_pack(images=40)
        >>> run = run_evaluation(make_method("dmn"), pack)
        >>> oracle_fusion(run, pack.labels).oracle_acc1 >= run.report.metrics["acc1"]
        True
    """
    names = fused_branches(run)
    true = np.asarray(labels)[run.order]
    best_accuracy, best_weights = -1.0, (0.0,) * len(names)
    for weights in product(grid, repeat=len(names)):
        accuracy = weighted_accuracy(run.parts, dict(zip(names, weights, strict=True)), true)
        if accuracy > best_accuracy:
            best_accuracy, best_weights = accuracy, weights
    return OracleFusion(best_accuracy, {"zero_shot": 1.0} | dict(zip(names, best_weights, strict=True)))


def weighted_accuracy(parts: dict[str, Array], weights: dict[str, float], true: Ints) -> float:
    """Return the accuracy of zero-shot plus weighted branches."""
    rows = max(1, BLOCK_SCORES // parts["zero_shot"].shape[1])
    correct = 0
    for start in range(0, len(true), rows):
        block = slice(start, start + rows)
        scores = parts["zero_shot"][block].copy()
        for name, weight in weights.items():
            if weight:
                scores += np.float32(weight) * parts[name][block]
        correct += int((scores.argmax(axis=1) == true[block]).sum())
    return correct / len(true)


def oracle_surface(
    parts: dict[str, Array], true: Ints, afv_weights: NDArray[np.float64], css_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the accuracy of zero-shot + β2·CSS + β3·AFV for every pair of weights.

    For one β2 and one sample, the β3 that give the true class the highest score form an interval. So a row of the
    result costs one pass over the scores, however many β3 there are.

    Args:
        parts: Scores of `zero_shot`, `css` and `afv`, [n, K] each.
        true: True classes, [n].
        afv_weights: Ascending values of β3, [columns].
        css_weights: Values of β2, [rows].

    Returns:
        Accuracies, [rows, columns].
    """
    samples = np.arange(len(true))

    def margins(name: str) -> NDArray[np.float64]:
        """Return by how much the true class exceeds each class, [n, K]."""
        scores = parts[name].astype(np.float64)
        return scores[samples, true][:, None] - scores

    zero_shot, css, afv = margins("zero_shot"), margins("css"), margins("afv")
    others = np.arange(zero_shot.shape[1]) != true[:, None]
    later = np.arange(zero_shot.shape[1]) > true[:, None]  # of equal scores the earlier class wins
    rises, falls, level = others & (afv > 0), others & (afv < 0), others & (afv == 0)
    slope = np.where(afv == 0, 1.0, afv)
    columns = len(afv_weights)
    surface = np.empty((len(css_weights), columns))
    for row, weight in enumerate(css_weights):
        base = zero_shot + weight * css
        crossing = -base / slope
        low = np.where(rises, crossing, -np.inf).max(axis=1)
        high = np.where(falls, crossing, np.inf).min(axis=1)
        possible = ~(level & ((base < 0) | ((base == 0) & ~later))).any(axis=1)
        correct = possible & (low < high)
        # A sample is correct for low < β3 < high, so count the columns between sorted interval ends.
        begins = np.searchsorted(afv_weights, low[correct], side="right")
        ends = np.searchsorted(afv_weights, high[correct], side="left")
        starting = np.bincount(begins, minlength=columns + 1)
        ending = np.bincount(np.maximum(begins, ends), minlength=columns + 1)
        surface[row] = (starting - ending).cumsum()[:-1] / len(true)
    return surface
