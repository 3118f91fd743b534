"""Pure functions on arrays: products, unit rows, softmax, entropy, rows of remapped classes."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.kernel import COMPILED

Array = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
TINY = np.float32(1e-30)  # keeps logarithms and quotients finite
Scalar = TypeVar("Scalar", bound=np.generic)


def dots(rows: Array, queries: Array) -> Array:
    """Return the products of rows [n, D] with queries [b, D] as [b, n].

    The bits of a product depend on its two rows alone, not on the number of rows or queries.
    Compiled: kernel/dots.c.
    """
    products = np.empty((len(queries), len(rows)), np.float32)
    if COMPILED is not None:
        COMPILED.dots(rows, queries, products)
    else:
        for query, product in zip(queries, products, strict=True):
            np.matmul(rows, query, out=product)
    return products


def unit(rows: Array) -> Array:
    """Scale the last axis to length one; a zero row stays zero."""
    norm: Array = np.sqrt(np.add.reduce(rows * rows, axis=-1, keepdims=True))
    return as_float32(rows / np.where(norm > 0, norm, np.float32(1)))


def unit_mean(rows: Array, which: Ints) -> Array:
    """Return the mean of some rows at unit length; zero if they cancel out."""
    mean: Array = rows[which[0]] if len(which) == 1 else rows[which].mean(axis=0)
    length = np.sqrt(mean @ mean)
    return mean / length if length > 0 else mean


def softmax(logits: Array) -> Array:
    """Softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: Array = shifted / shifted.sum(axis=-1, keepdims=True)
    return probabilities


def agreement(zero_shot: Array, scores: Array) -> Array:
    """Return how far zero-shot's probabilities [..., K] agree with themselves and with other ones, from 0 to 1.

    Two draws of zero-shot name the same class with probability p·p; one of zero-shot and one of the other with
    probability p·z. The result is their geometric mean.
    """
    itself, other = (zero_shot * zero_shot).sum(axis=-1), (zero_shot * scores).sum(axis=-1)
    result: Array = np.sqrt(itself * other)
    return result


def entropy(probabilities: Array, epsilon: float) -> Array:
    """Entropy over the last axis, in nats: -sum p·log(p + epsilon)."""
    value: Array = -(probabilities * np.log(probabilities + np.float32(epsilon))).sum(axis=-1)
    return value


def logits_entropy(logits: Array) -> Array:
    """Entropy of softmax(logits), in nats, without an epsilon."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    value: Array = -(np.exp(log_p) * log_p).sum(axis=-1)
    return value


def class_probabilities(cosine: Array, scale: float) -> Array:
    """Return the softmax of one query's scaled cosines [K]. Compiled: kernel/softmax.c."""
    if COMPILED is not None:
        probabilities = np.empty_like(cosine)
        COMPILED.softmax(cosine, scale, probabilities)
        return probabilities
    return softmax(np.float32(scale) * cosine)


def affinity(cosine: Array, sharpness: float) -> Array:
    """Return exp(-sharpness·(1 - cosine)), the papers' φ; it is one at cosine one."""
    value: Array = np.exp(np.float32(-sharpness) * (np.float32(1) - cosine))
    return value


def take_classes(values: NDArray[Scalar], class_map: Ints, empty: Any = 0) -> NDArray[Scalar]:
    """Return the rows [K, ...] of remapped classes.

    Args:
        values: One row per old class.
        class_map: For each new class the index of the old class, -1 for a new one, [K].
        empty: Value of the rows of new classes.

    Examples:
        >>> take_classes(np.array([5, 6, 7]), np.array([2, -1, 0])).tolist()
        [7, 0, 5]
    """
    rows = np.full((len(class_map), *values.shape[1:]), empty, values.dtype)
    rows[class_map >= 0] = values[class_map[class_map >= 0]]
    return rows


def as_float32(values: Any) -> Array:
    """Return a C-contiguous float32 array; the same object if it is one already."""
    return np.ascontiguousarray(values, dtype=np.float32)
