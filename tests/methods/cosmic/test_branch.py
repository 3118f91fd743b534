"""One branch: when it rebuilds its graph, which nodes take part, and what scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Cosmic, make_method
from cosmic_tta.core.arrays import Array, as_float32, class_probabilities, unit
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.methods.components.prototypes import PrototypeConfig
from cosmic_tta.methods.cosmic.branch import BranchConfig, BranchQuery, present_nodes, score_branch
from cosmic_tta.methods.cosmic.feature_space import CacheCandidate, GraphSpace, Rebuild, SpaceConfig
from cosmic_tta.methods.cosmic.lookahead import CachedLookups

TEXTS = unit(as_float32(np.random.default_rng(1).standard_normal((4, 6))))


def config(spec: str = "cosmic", **parameters: object) -> BranchConfig:
    method = make_method(spec, **parameters)
    assert isinstance(method, Cosmic)
    return method._css_config


def space_with(*labels: int, texts: Array | None = None) -> GraphSpace:
    """A space of four classes with one sample for each of the labels."""
    space, rng = GraphSpace.empty(4, 3, 6, SpaceConfig(PrototypeConfig("mean"), texts, True)), np.random.default_rng(0)
    for sample, label in enumerate(labels):
        feature = unit(as_float32(rng.standard_normal(6)))
        space.learn(CachedLookups(feature[None]), CacheCandidate(feature, label, 0.5, sample), Rebuild.NEVER)
    return space


def query(seen: int = 5) -> BranchQuery:
    return BranchQuery(CachedLookups(unit(as_float32([[1, 2, 3, 4, 5, 6]]))), seen, 30.0)


@pytest.mark.parametrize(
    ("rebuild", "seen", "rule"),
    [
        ("always", 1001, Rebuild.ALWAYS),
        ("scheduled", 0, Rebuild.ON_CHANGE),
        ("scheduled", 80, Rebuild.ON_CHANGE),  # classes · shots
        ("scheduled", 81, Rebuild.NEVER),
        ("scheduled", 100, Rebuild.ALWAYS),
        ("scheduled", 101, Rebuild.NEVER),
    ],
)
def test_the_schedule(rebuild: str, seen: int, rule: Rebuild) -> None:
    assert config(rebuild=rebuild, shots=8, rebuild_every=100).rebuild_rule(10, seen) is rule


def test_a_threshold_grows_and_other_densities_stay() -> None:
    assert config("cosmic@paper", growth=1e-3).density(50).value == pytest.approx(0.9)
    assert config("cosmic@official").density(50) == config("cosmic@official").density(0)
    assert config(degeneracy=3).density(7) == ("degeneracy", 3)


@pytest.mark.parametrize(
    ("texts", "empty_scores", "seen", "labels", "expected"),
    [
        (False, False, 5, (1, 3), "0101"),
        (False, True, 5, (1, 3), "1111"),
        (False, True, 0, (), "0000"),  # a peek before the first sample
        (False, True, 0, (2,), "1111"),
        (False, True, 7, (), "1111"),
        (True, False, 5, (1, 3), "11110101"),
        (True, True, 0, (), "11111111"),
    ],
)
def test_the_nodes_that_take_part(
    texts: bool, empty_scores: bool, seen: int, labels: tuple[int, ...], expected: str
) -> None:
    space = space_with(*labels, texts=TEXTS if texts else None)
    present = present_nodes(space, config(empty_scores=empty_scores), seen)
    assert "".join(str(int(one)) for one in present) == expected


def test_a_prototype_with_a_text_slot_takes_part_without_samples() -> None:
    space = GraphSpace.empty(4, 3, 6, SpaceConfig(PrototypeConfig("attention", text=TEXTS), TEXTS, True))
    assert present_nodes(space, config(), 0).all()


def test_before_the_first_sample_nothing_scores() -> None:
    result = score_branch(space_with(), query(seen=0), None, config())
    assert not result.scores.any()
    assert not result.nearest.inliers.any()
    assert len(result.hyperclasses) == 0


def test_only_inliers_among_present_nodes_score() -> None:
    space = space_with(0, 1, 3)
    everything = score_branch(space, query(), None, config(ratio=1.0))
    assert everything.prototype_cosine is not None
    present = np.array([True, True, False, True])
    expected = np.zeros(4, np.float32)
    expected[present] = class_probabilities(everything.prototype_cosine[present], 30.0)
    np.testing.assert_array_equal(everything.scores, expected)
    assert everything.nearest.inliers.tolist() == present.tolist()
    few = score_branch(space, query(), None, config(ratio=0.01, order=1, graph="threshold", threshold=1.0))
    best = int(np.where(present, everything.prototype_cosine, -np.inf).argmax())
    assert np.flatnonzero(few.scores).tolist() == [best]


def test_scoring_without_learning_changes_nothing() -> None:
    space = space_with(0, 1, 3)
    before = state_digest(space)
    one, two = (score_branch(space, query(), None, config()) for _ in range(2))
    assert state_digest(space) == before
    np.testing.assert_array_equal(one.scores, two.scores)


def test_learning_keeps_the_graph_that_was_built() -> None:
    space, always = space_with(0, 1), replace(config(), rebuild="always")
    feature = unit(as_float32([6, 5, 4, 3, 2, 1]))
    result = score_branch(space, query(), CacheCandidate(feature, 2, 0.1, 5), always)
    assert space.hyperclasses is result.hyperclasses
    assert space.memory.cache.count.tolist() == [1, 1, 1, 0]
    seldom = replace(always, rebuild="scheduled", shots=0, rebuild_every=1000)
    later = score_branch(space, query(seen=6), CacheCandidate(feature, 3, 0.1, 6), seldom)
    assert later.hyperclasses is result.hyperclasses
    assert space.frozen.classes.tolist() == [3]


def test_slot_products_are_reported_where_they_are_wanted() -> None:
    space = space_with(0, 1)
    assert score_branch(space, query(), None, config()).slot_products is None
    products = score_branch(space, query(), None, replace(config(), slot_products=True)).slot_products
    assert products is not None
    assert products.shape == (4, 3)
