"""Pure functions on arrays: unit rows, softmax, entropy, confident views."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def unit(rows: Array) -> Array:
    """Scale the last axis to length one; a zero row stays zero."""
    norm: Array = np.linalg.norm(rows, axis=-1, keepdims=True)
    return as_float32(rows / np.where(norm > 0, norm, np.float32(1)))


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
    """What the confident views of an image say of it."""

    kept: Ints  # the views, the surest first
    label: int  # pseudo-label: argmax of their mean probability
    entropy: float  # of that mean


def confident_look(probabilities: Array, share: float) -> Look:
    """Let the confident views [V, K] give an image its pseudo-label and how sure it is."""
    kept = confident_views(entropy(probabilities, 1e-6), share)
    mean = probabilities[kept].mean(axis=0)
    return Look(kept, int(mean.argmax()), float(entropy(mean, 1e-8)))


def affinity(cosine: Array, sharpness: float) -> Array:
    """Return the paper's φ: exp(-sharpness·(1 - cosine)), one at cosine one."""
    value: Array = np.exp(np.float32(-sharpness) * (np.float32(1) - cosine))
    return value


def as_float32(values: Any) -> Array:
    """Return a C-contiguous float32 array; the same object if it is one already."""
    return np.ascontiguousarray(values, dtype=np.float32)
