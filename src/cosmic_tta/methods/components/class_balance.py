"""Measures of how evenly soft counts [K] are spread over the classes."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, as_float32


def clip01(value: float) -> float:
    """Return a value limited to the range from 0 to 1."""
    return min(max(value, 0.0), 1.0)


def log_share_excess(soft_count: Array, prior: float) -> Array:
    """Return the log of each class's share relative to an even share, [K]; `prior` samples are added per class.

    Examples:
        >>> log_share_excess(np.array([4, 4], np.float32), 1).tolist()
        [0.0, 0.0]
    """
    return as_float32(np.log(len(soft_count) * (soft_count + prior) / (soft_count.sum() + prior * len(soft_count))))


def dominance(soft_count: Array) -> float:
    """Return how much one class dominates: 0 up to twice its even share, 1 from about half of all samples on."""
    share = (float(soft_count.max()) + 1) / (float(soft_count.sum()) + len(soft_count))
    return clip01((share - 2 / len(soft_count)) / 0.4)


def effective_classes(soft_count: NDArray[Any]) -> float:
    """Return the exponential of the entropy of the class shares: K if all are even, 0 without samples.

    Examples:
        >>> round(effective_classes(np.array([3.0, 3.0, 0.0])), 3)
        2.0
    """
    total = float(soft_count.sum())
    if total <= 0:
        return 0.0
    share = soft_count / np.float32(total)
    return exp(-float(share @ np.log(share + np.float32(1e-12))))


def unevenness(soft_count: Array) -> float:
    """Return the share of classes that is missing, measured by `effective_classes`: 0 if all are even.

    Examples:
        >>> round(unevenness(np.array([1, 1, 1, 1], np.float32)), 3), round(unevenness(np.array([1, 0], np.float32)), 3)
        (0.0, 0.5)
    """
    return max(0.0, 1 - effective_classes(soft_count) / len(soft_count)) if soft_count.any() else 0.0


def inverse_frequency_weights(soft_count: Array, labels: Array, balance: float) -> Array:
    """Return weights of samples [B] in the running mean; samples of frequent classes weigh less.

    Args:
        soft_count: Samples per class so far, [K].
        labels: Soft labels of the samples, [B, K].
        balance: From 0, where all weigh one, to 1.
    """
    if not balance:
        return np.ones(len(labels), np.float32)
    share = np.minimum(1, soft_count.mean() / np.maximum(soft_count, np.float32(1e-9)))  # [K]
    return as_float32(1 - balance * (1 - (labels * share).sum(axis=1)))
