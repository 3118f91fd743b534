from __future__ import annotations

from math import log2

import numpy as np
import pytest

from cosmic_tta import Tda
from cosmic_tta.core.arrays import Array
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack


def naive_tda(pack: FeaturePack, method: Tda) -> list[Array]:
    """TDA with lists kept sorted by loss, several views as the published program takes them."""
    classes = len(pack.class_names)
    text = pack.text.astype(np.float64)
    positive: list[list[tuple[float, Array]]] = [[] for _ in range(classes)]
    negative: list[list[tuple[float, Array, Array]]] = [[] for _ in range(classes)]

    def insert(kept: list, item: tuple, shots: int) -> None:  # type: ignore[type-arg]
        if len(kept) < shots:
            kept.append(item)
        elif item[0] < kept[-1][0]:
            kept[-1] = item
        kept.sort(key=lambda other: other[0])

    answers = []
    for views in pack.clip.astype(np.float64):
        logits = pack.logit_scale * views @ text.T
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if len(views) == 1:
            kept = np.array([0])
        else:
            entropies = -(p * np.log(p)).sum(axis=1)
            kept = np.argsort(entropies)[: max(1, int(method.confident * len(views)))]
        feature, mean_logits, row = views[kept].mean(axis=0), logits[kept].mean(axis=0), p[kept].mean(axis=0)
        loss = -(row * np.log(row + 1e-300)).sum()
        label = int(mean_logits.argmax())
        insert(positive[label], (loss, feature), method.shots)
        low, high = method.negative_entropy
        if low < loss / log2(classes) < high:
            insert(negative[label], (loss, feature, row), method.negative_shots)
        adapted = mean_logits.copy()
        for k in range(classes):
            for _, key in positive[k]:
                adapted[k] += method.alpha * np.exp(-method.beta * (1 - feature @ key))
            for _, key, stored in negative[k]:
                low, high = method.negative_mask
                against = (stored > low) & (stored < high)
                adapted -= method.negative_alpha * np.exp(-method.negative_beta * (1 - feature @ key)) * against
        answers.append(adapted)
    return answers


@pytest.mark.parametrize("views", [1, 8, 30])
def test_tda_is_the_plain_lists(views: int) -> None:
    pack = superclass_pack(5, images=150, dim=24, aux_dim=8, views=views)
    method = Tda(negative_alpha=1.0)
    run = run_evaluation(method, pack, order="given")
    np.testing.assert_allclose(run.parts["logits"], np.stack(naive_tda(pack, method)), atol=2e-3)
    assert run.parts["negative"].any()
