"""Measures of how evenly soft counts [K] are spread over the classes."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, as_float32


def log_share_excess(soft_count: Array, prior: float) -> Array:
    """Return the log of each class's share relative to an even share, [K]; `prior` samples are added per class.

    Examples:
        >>> log_share_excess(np.array([4, 4], np.float32), 1).tolist()
        [0.0, 0.0]
    """
    return as_float32(np.log(len(soft_count) * (soft_count + prior) / (soft_count.sum() + prior * len(soft_count))))


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
