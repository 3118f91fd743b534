"""Pure functions on arrays: unit rows, softmax, entropy, confident views."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.kernel import COMPILED

Array = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


def dots(rows: Array, queries: Array) -> Array:
    """Return the products of rows [n, D] with queries [b, D], [b, n]; the bits of one depend on its two rows alone."""
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


def confident_views(entropies: Array, share: float) -> Ints:
    """Return the views of least entropy, the surest first: a share of them, rounded down, at least one."""
    keep = max(1, int(share * len(entropies)))
    kept: Ints = np.argsort(entropies, kind="stable")[:keep]
    return kept


class Look(NamedTuple):
    """What the views of an image say of it, and the confident ones among them."""

    probabilities: Array  # [V, K]
    kept: Ints  # the confident views, the surest first
    label: int  # pseudo-label: argmax of their mean probability
    entropy: float  # of that mean
    feature: Array  # [D] the mean of the confident views at unit length; [0] if no views were given


def confident_look(text_dots: Array, scale: float, share: float, views: Array | None = None) -> Look:
    """Let the confident views [V, D] give an image its pseudo-label and how sure it is, from views·texts [V, K]."""
    if COMPILED is not None:
        probabilities, keep = np.empty_like(text_dots), max(1, int(share * len(text_dots)))
        feature = np.empty(0 if views is None else views.shape[1], np.float32)
        label, surprise, surest = COMPILED.look(text_dots, scale, keep, probabilities, views, feature)
        return Look(probabilities, np.frombuffer(surest, np.int64), label, surprise, feature)
    probabilities = softmax(np.float32(scale) * text_dots)
    kept = confident_views(entropy(probabilities, 1e-6), share)
    mean = probabilities[kept].mean(axis=0)
    feature = np.zeros(0, np.float32) if views is None else unit_mean(views, kept)
    return Look(probabilities, kept, int(mean.argmax()), float(entropy(mean, 1e-8)), feature)


def joint_look(one: Array, other: Array) -> tuple[int, float]:
    """Return the class that the sum of two predictions [K] favours, and the entropy of that sum's softmax."""
    if COMPILED is not None:
        label, surprise = COMPILED.doubt(one, other)
        return label, surprise
    joint = one + other
    return int(joint.argmax()), float(logits_entropy(joint))


def class_probabilities(cosine: Array, scale: float) -> Array:
    """Return the softmax of one query's scaled cosines [K]."""
    if COMPILED is not None:
        probabilities = np.empty_like(cosine)
        COMPILED.softmax(cosine, scale, probabilities)
        return probabilities
    return softmax(np.float32(scale) * cosine)


def affinity(cosine: Array, sharpness: float) -> Array:
    """Return the paper's φ: exp(-sharpness·(1 - cosine)), one at cosine one."""
    value: Array = np.exp(np.float32(-sharpness) * (np.float32(1) - cosine))
    return value


class Fused(NamedTuple):
    """The weighted sum of COSMIC's branches."""

    css: Array  # [K] the means of each class's two nodes
    scores: Array  # [K] shares of one
    label: int


def fuse(zero_shot: Array, css: Array, afv: Array | None, weights: tuple[float, float, float]) -> Fused:
    """Add up zero-shot [K], the scores of texts and centres [2K], and those of auxiliary centres [K], weighted.

    Where nothing weighs, zero-shot answers.
    """
    if COMPILED is not None:
        classes, scores = np.empty_like(zero_shot), np.empty_like(zero_shot)
        return Fused(classes, scores, COMPILED.fuse(zero_shot, css, afv, *weights, classes, scores))
    classes = (css[: len(zero_shot)] + css[len(zero_shot) :]) / np.float32(2)
    mixed = np.float32(weights[0]) * zero_shot + np.float32(weights[1]) * classes
    if afv is not None:
        mixed = mixed + np.float32(weights[2]) * afv
    total = mixed.sum()
    scores = zero_shot if total == 0 else mixed / total
    return Fused(classes, scores, int(scores.argmax()))


def by_place(values: NDArray[Scalar], places: Ints, empty: Any = 0) -> NDArray[Scalar]:
    """Return the rows of other classes: the one at each place, and of a class at place -1 an empty one.

    >>> by_place(np.array([5, 6, 7]), np.array([2, -1, 0])).tolist()
    [7, 0, 5]
    """
    rows = np.full((len(places), *values.shape[1:]), empty, values.dtype)
    rows[places >= 0] = values[places[places >= 0]]
    return rows


def as_float32(values: Any) -> Array:
    """Return a C-contiguous float32 array; the same object if it is one already."""
    return np.ascontiguousarray(values, dtype=np.float32)
