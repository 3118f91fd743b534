"""Explanations: true for the moment of the prediction, and plain data."""

from __future__ import annotations

import pickle

import numpy as np

from cosmic_tta import make_method
from cosmic_tta.core.arrays import as_float32
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.cosmic.branch import BranchResult
from cosmic_tta.methods.cosmic.explain import ExplanationData, explain
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses, NearestHyperClasses

HYPERCLASSES = HyperClasses(np.array([0, 2, 1]), np.array([2, 1]), as_float32([0.5, 1.0]))
NEAREST = NearestHyperClasses(as_float32([0.25, 0.75]), 1, np.array([False, True, False, False]), None)


def cache() -> ClassCache:
    made = ClassCache.empty(2, 3, 2)
    for sample, feature in enumerate(as_float32([[1, 0], [0, 1], [1, 0]])):
        made.try_insert(1 if sample < 2 else 0, feature, 0.1, sample)
    return made


def test_products_are_computed_where_the_branch_has_none() -> None:
    branch = BranchResult(np.zeros(4, np.float32), HYPERCLASSES, NEAREST, None)
    data = ExplanationData.of_step(branch, cache(), as_float32([0.6, 0.8]), 1)
    assert data.samples.tolist() == [0, 1]
    np.testing.assert_allclose(data.slot_products, [0.6, 0.8])
    looked_up = branch._replace(slot_products=as_float32([[0.1, 0, 0], [0.2, 0.3, 0]]))
    data = ExplanationData.of_step(looked_up, cache(), as_float32([0.6, 0.8]), 1)
    assert data.samples.tolist() == [0, 1, -1]
    np.testing.assert_allclose(data.slot_products, [0.2, 0.3, 0])


def test_nodes_are_named_and_votes_sorted() -> None:
    data = ExplanationData(HYPERCLASSES, NEAREST, np.array([0, 1, -1]), as_float32([0.6, 1.0, 0.0]))
    why = explain(("cat", "dog"), 1, 5.5, {"css": data})
    assert why.hyper_classes["css"][0].members == ("dog (text)",)
    assert why.inliers["css"] == ("dog",)
    assert why.complete == {"css": True}
    assert [(vote.sample, vote.label) for vote in why.votes["css"]] == [(1, "dog"), (0, "dog")]
    assert why.votes["css"][0].weight == 1


def test_an_explanation_outlives_the_cache(pack: FeaturePack) -> None:
    for spec in ("cosmic", "cosmic@official", "cosmic@paper"):
        method = make_method(spec)
        one, two = method.init(pack.task()), method.init(pack.task())
        late = [method.step(one, pack.sample(index)) for index in range(60)]
        pickled = [pickle.loads(pickle.dumps(prediction)) for prediction in late]
        prompt = [method.step(two, pack.sample(index)).why for index in range(60)]
        assert [prediction.why for prediction in late] == prompt
        assert [prediction.why for prediction in pickled] == prompt
