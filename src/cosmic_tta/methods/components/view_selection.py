"""Selection of the confident views of an image, and their pseudo-label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, entropy, logits_entropy, softmax, unit_mean
from cosmic_tta.core.kernel import COMPILED


def confident_views(entropies: Array, share: float) -> Ints:
    """Return the views of lowest entropy, the lowest first: a share of all, rounded down, at least one."""
    keep = max(1, int(share * len(entropies)))
    kept: Ints = np.argsort(entropies, kind="stable")[:keep]
    return kept


class ViewSelection(NamedTuple):
    """The predictions of an image's views, the confident ones among them, and what they say together."""

    probabilities: Array  # [V, K]
    kept: Ints  # the confident views, the lowest entropy first
    label: int  # pseudo-label: argmax of their mean probability
    entropy: float  # of that mean probability
    feature: Array  # [D] unit mean of the confident views; [0] if no features were given


def select_confident_views(text_dots: Array, scale: float, share: float, views: Array | None = None) -> ViewSelection:
    """Select the confident views of an image and combine them. Compiled: kernel/cosmic/view_selection.c.

    Args:
        text_dots: Products of the views with the class texts, [V, K].
        scale: Logit scale.
        share: Share of the views that is selected.
        views: Features of the views, [V, D], if their mean is needed.

    Returns:
        The selection with its pseudo-label, entropy and mean feature.
    """
    if COMPILED is not None:
        probabilities, keep = np.empty_like(text_dots), max(1, int(share * len(text_dots)))
        feature = np.empty(0 if views is None else views.shape[1], np.float32)
        label, mean_entropy, selected = COMPILED.select_confident_views(
            text_dots, scale, keep, probabilities, views, feature
        )
        return ViewSelection(probabilities, np.frombuffer(selected, np.int64), label, mean_entropy, feature)
    probabilities = softmax(np.float32(scale) * text_dots)
    kept = confident_views(entropy(probabilities, 1e-6), share)
    mean = probabilities[kept].mean(axis=0)
    feature = np.zeros(0, np.float32) if views is None else unit_mean(views, kept)
    return ViewSelection(probabilities, kept, int(mean.argmax()), float(entropy(mean, 1e-8)), feature)


def joint_pseudo_label(one: Array, other: Array) -> tuple[int, float]:
    """Return the class with the largest sum of two predictions [K], and the entropy of the sum's softmax.

    Compiled: kernel/cosmic/view_selection.c.
    """
    if COMPILED is not None:
        label, joint_entropy = COMPILED.joint_pseudo_label(one, other)
        return label, joint_entropy
    joint = one + other
    return int(joint.argmax()), float(logits_entropy(joint))
