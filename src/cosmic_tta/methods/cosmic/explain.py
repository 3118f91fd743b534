"""What a step keeps so that its prediction can be explained after the caches have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, affinity, dots
from cosmic_tta.core.explanation import Explanation, votes
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.cosmic.branch import BranchResult
from cosmic_tta.methods.cosmic.fused_step import AfvStep, CssStep
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses, NearestHyperClasses


class ExplanationData(NamedTuple):
    """One space's part of an explanation, as arrays and numbers, so that a prediction can be pickled."""

    hyperclasses: HyperClasses
    nearest: NearestHyperClasses
    samples: Ints  # [l] in the slots of the predicted class
    slot_products: Array  # [l] of these slots with the image

    @classmethod
    def of_step(
        cls, step: BranchResult | CssStep | AfvStep, cache: ClassCache, query: Array, label: int
    ) -> ExplanationData:
        """Copy what the explanation needs from a cache that will change, for the predicted class."""
        if step.slot_products is not None:
            samples, products = cache.sample[label].copy(), step.slot_products[label].copy()
        else:
            count = cache.count[label]
            samples, products = cache.sample[label, :count].copy(), dots(cache.slots[label, :count], query[None])[0]
        return cls(step.hyperclasses, step.nearest, samples, products)


def explain(
    class_names: Sequence[str], label: int, sharpness: float, spaces: Mapping[str, ExplanationData]
) -> Explanation:
    """Explain a prediction: the nearest hyper-classes, the inlier classes and the votes of samples, per space.

    Args:
        class_names: Of the task.
        label: The predicted class.
        sharpness: Of the affinity that turns a slot's product into its vote.
        spaces: What the step kept, by the name of the space.
    """
    classes = len(class_names)
    node_names = {"afv": class_names}
    node_names["css"] = [f"{name} (text)" for name in class_names] + [f"{name} (images)" for name in class_names]
    explanation = Explanation()
    for name, data in spaces.items():
        inlier_classes = data.nearest.inliers.reshape(-1, classes).any(axis=0)  # [K]
        explanation.hyper_classes[name] = data.hyperclasses.describe(data.nearest, node_names[name])
        explanation.complete[name] = data.hyperclasses.complete
        explanation.inliers[name] = tuple(class_names[k] for k in np.flatnonzero(inlier_classes).tolist())
        weights = affinity(data.slot_products, sharpness)
        explanation.votes[name] = votes(class_names[label], data.samples, weights)
    return explanation
