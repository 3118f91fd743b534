"""What label-searched weights would have reached: the published program's search, in the evaluator's room.

Nothing here can be used in practice: the weights are picked by accuracy on the labels of the very stream they are
reported on. Every name says `oracle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Run
from cosmic_tta.ops import Array, Ints

# The weights that the published program tries for each branch beside zero-shot, whose own weight is 1.
ORACLE_GRID = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
BRANCHES = (("css", "afv"), ("css",), ("clip_cache",))  # what a method fuses with zero-shot: the first it has
BLOCK = 1 << 22  # scores fused at once


@dataclass(frozen=True)
class OracleFusion:
    """The best weights in hindsight, and the accuracy that they reach, a fraction of one."""

    oracle_acc1: float
    oracle_weights: dict[str, float]  # of zero_shot and the branches


def fused_branches(run: Run) -> tuple[str, ...]:
    """Return the branches that a run fused with zero-shot."""
    for names in BRANCHES:
        if all(name in run.parts for name in names):
            return names
    raise InputError(f"{run.report.title} has no branches to weigh beside zero-shot; it has {', '.join(run.parts)}.")


def oracle_fusion(run: Run, labels: Ints, grid: Sequence[float] = ORACLE_GRID) -> OracleFusion:
    """Search the weights of a run's branches by accuracy on the labels, as the published program does.

    Args:
        run: of a method with branches: COSMIC's CSS and AFV, or DMN's memory.
        labels: of the whole pack; the run's order picks its own.
        grid: weights to try for every branch. Among equals the first in the order of the grid counts.
    """
    names = fused_branches(run)
    true = np.asarray(labels)[run.order]
    best, found = -1.0, (0.0,) * len(names)
    for weights in product(grid, repeat=len(names)):
        hits = weighted_hits(run.parts, dict(zip(names, weights, strict=True)), true)
        if hits > best:
            best, found = hits, weights
    return OracleFusion(best, {"zero_shot": 1.0} | dict(zip(names, found, strict=True)))


def weighted_hits(parts: dict[str, Array], weights: dict[str, float], true: Ints) -> float:
    """Return the accuracy of zero-shot plus weighted branches."""
    rows = max(1, BLOCK // parts["zero_shot"].shape[1])
    right = 0
    for start in range(0, len(true), rows):
        block = slice(start, start + rows)
        scores = parts["zero_shot"][block].copy()
        for name, weight in weights.items():
            if weight:
                scores += np.float32(weight) * parts[name][block]
        right += int((scores.argmax(axis=1) == true[block]).sum())
    return right / len(true)


def oracle_surface(
    parts: dict[str, Array], true: Ints, across: NDArray[np.float64], along: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the accuracy of zero-shot + β2·CSS + β3·AFV for every β2 in `along` and β3 in `across`: [rows, columns].

    For one β2 and one sample, the β3 that answer rightly are an interval: where the true class is above each other.
    So a row costs one pass over the scores, however many β3 there are.
    """
    columns, rows = across, np.arange(len(true))

    def margins(name: str) -> NDArray[np.float64]:  # of the true class over each other, [n, K]
        scores = parts[name].astype(np.float64)
        return scores[rows, true][:, None] - scores

    zero_shot, css, afv = margins("zero_shot"), margins("css"), margins("afv")
    others = np.arange(zero_shot.shape[1]) != true[:, None]
    first = np.arange(zero_shot.shape[1]) > true[:, None]  # among equals the true class wins over later ones
    rises, falls, level = others & (afv > 0), others & (afv < 0), others & (afv == 0)
    slope = np.where(afv == 0, 1.0, afv)
    surface = np.empty((len(along), len(columns)))
    for place, weight in enumerate(along):
        base = zero_shot + weight * css
        cross = -base / slope
        low = np.where(rises, cross, -np.inf).max(axis=1)
        high = np.where(falls, cross, np.inf).min(axis=1)
        possible = ~(level & ((base < 0) | ((base == 0) & ~first))).any(axis=1)
        within = possible & (low < high)
        # Right for low < β3 < high: count the columns by sorted ends.
        begins = np.searchsorted(columns, low[within], side="right")
        ends = np.searchsorted(columns, high[within], side="left")
        changes = np.bincount(begins, minlength=len(columns) + 1) - np.bincount(
            np.maximum(begins, ends), minlength=len(columns) + 1
        )
        surface[place] = changes.cumsum()[:-1] / len(true)
    return surface
