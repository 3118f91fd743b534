"""How evenly the samples of a stream fall upon its classes."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.ops import Array, as_float32


def ramp(value: float) -> float:
    """Return a value, at least 0 and at most 1."""
    return min(max(value, 0.0), 1.0)


def tilt(mass: Array, prior: float) -> Array:
    """By how much, in log, each class has more than its even share, [K]."""
    return as_float32(np.log(len(mass) * (mass + prior) / (mass.sum() + prior * len(mass))))


def dominance(mass: Array) -> float:
    """How much one class dominates: 0 up to twice its even share, 1 from about half of all samples on."""
    share = (float(mass.max()) + 1) / (float(mass.sum()) + len(mass))
    return ramp((share - 2 / len(mass)) / 0.4)


def effective_classes(mass: NDArray[Any]) -> float:
    """How many classes there seem to be, by the entropy of their shares: K if all are even; 0 of nothing.

    >>> round(effective_classes(np.array([3.0, 3.0, 0.0])), 3)
    2.0
    """
    total = float(mass.sum())
    if total <= 0:
        return 0.0
    share = mass / np.float32(total)
    return exp(-float(share @ np.log(share + np.float32(1e-12))))


def unevenness(mass: Array) -> float:
    """The share of the classes that seems to be missing, by the entropy of the others: 0 if all are even.

    >>> round(unevenness(np.array([1, 1, 1, 1], np.float32)), 3), round(unevenness(np.array([1, 0], np.float32)), 3)
    (0.0, 0.5)
    """
    return max(0.0, 1 - effective_classes(mass) / len(mass)) if mass.any() else 0.0


def sparing(mass: Array, labels: Array, balance: float) -> Array:
    """Return how much samples [B, K] weigh in the running mean: less, the more of their class there are."""
    if not balance:
        return np.ones(len(labels), np.float32)
    share = np.minimum(1, mass.mean() / np.maximum(mass, np.float32(1e-9)))  # [K]
    return as_float32(1 - balance * (1 - (labels * share).sum(axis=1)))
