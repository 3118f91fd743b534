from __future__ import annotations

import numpy as np

from cosmic_tta import BayesMeans
from cosmic_tta.core.arrays import as_float32
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.bayes_means.explain import explain


def test_arrays_become_names_and_votes() -> None:
    why = explain(
        ("cat", "dog"), 1, np.array([4, 7]), as_float32([0.25, 0.5]), {"clip": 0.5}, as_float32([1, 3]),
        as_float32([0, -0.5]),
    )  # fmt: skip
    assert [(vote.sample, vote.label, vote.weight) for vote in why.votes["clip"]] == [(7, "dog", 0.5), (4, "dog", 0.25)]
    assert why.reliability == {"clip": 0.5}
    assert why.soft_counts == {"cat": 1, "dog": 3}
    assert why.bias == {"cat": 0, "dog": -0.5}


def test_an_explanation_outlives_the_state(pack: FeaturePack) -> None:
    method = BayesMeans()
    one, two = method.init(pack.task()), method.init(pack.task())
    late = [method.step(one, pack.sample(index)) for index in range(40)]
    prompt = [method.step(two, pack.sample(index)).why for index in range(40)]
    assert [prediction.why for prediction in late] == prompt
    assert 0 < sum(prompt[-1].soft_counts.values()) <= 40
