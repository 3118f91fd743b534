"""A feature space: its cache, its nodes, and what it keeps of the last graph."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.core.arrays import Array, as_float32, dots, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.components.prototypes import PrototypeConfig
from cosmic_tta.methods.cosmic.feature_space import CacheCandidate, GraphSpace, Rebuild, SpaceConfig
from cosmic_tta.methods.cosmic.graph.cliques import Cliques
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses
from cosmic_tta.methods.cosmic.lookahead import CachedLookups
from cosmic_tta.sessions.state_file import load, save

RNG = np.random.default_rng(0)


def row() -> Array:
    return unit(as_float32(RNG.standard_normal(6)))


def mean_space() -> GraphSpace:
    """A space of three classes whose prototypes are means, with a graph of three cliques."""
    space = GraphSpace.empty(3, 2, 6, SpaceConfig(PrototypeConfig("mean"), None, True))
    for label in range(3):
        space.learn(CachedLookups(row()[None]), CacheCandidate(row(), label, 0.5, label), Rebuild.ALWAYS)
    space.commit_hyperclasses(one_clique_per_node(3), None)
    return space


def one_clique_per_node(nodes: int) -> HyperClasses:
    ones = np.ones(nodes, np.int64)
    return HyperClasses.from_cliques(
        Cliques(np.arange(nodes), ones, as_float32(ones), True), np.eye(nodes, dtype=np.float32), cosine=False
    )


@pytest.mark.parametrize(
    ("rebuild", "taken", "frozen"),
    [
        (Rebuild.ALWAYS, True, []),
        (Rebuild.ON_CHANGE, True, []),  # a new graph follows, so nothing is frozen
        (Rebuild.NEVER, True, [1]),
        (Rebuild.NEVER, False, []),
    ],
)
def test_a_node_is_frozen_if_its_graph_stays(rebuild: Rebuild, taken: bool, frozen: list[int]) -> None:
    space, query = mean_space(), CachedLookups(row()[None])
    space.learn(query, CacheCandidate(row(), 1, 0.4, 3), Rebuild.ALWAYS)  # the class is full now
    assert space.memory.nodes is not None
    before = space.memory.nodes[1].copy()
    assert space.learn(query, CacheCandidate(row(), 1, 0.1 if taken else 0.9, 4), rebuild) is taken
    assert space.frozen.classes.tolist() == frozen
    cosine = dots(space.memory.nodes, query.queries)[0]
    similarity = space.similarity_to_frozen_nodes(query, cosine, learn=True)
    expected = cosine.copy()
    expected[frozen] = before @ query.queries[0]
    np.testing.assert_allclose(similarity, expected, atol=1e-6)


def test_a_node_is_frozen_as_it_was_in_the_graph_and_only_once() -> None:
    space, query = mean_space(), CachedLookups(row()[None])
    assert space.memory.nodes is not None
    in_graph = space.memory.nodes[1].copy()
    space.learn(query, CacheCandidate(row(), 1, 0.4, 3), Rebuild.NEVER)
    first = space.frozen
    space.learn(query, CacheCandidate(row(), 1, 0.1, 4), Rebuild.NEVER)
    assert space.frozen is first
    np.testing.assert_array_equal(first.rows, in_graph[None])
    space.commit_hyperclasses(one_clique_per_node(3), None)
    assert len(space.frozen.classes) == 0
    assert len(first.classes) == 1  # the value itself never changes


def test_nodes_of_slot_weights_are_mixed_before_a_slot_is_overwritten() -> None:
    space = GraphSpace.empty(2, 1, 6, SpaceConfig(PrototypeConfig("attention"), None, False))
    old, query = row(), CachedLookups(row()[None])
    space.learn(query, CacheCandidate(old, 0, 0.5, 0), Rebuild.ALWAYS)
    space.commit_hyperclasses(one_clique_per_node(2), as_float32([[0.3], [0.0]]))
    assert len(space.frozen.rows) == 0
    space.learn(query, CacheCandidate(row(), 0, 0.1, 1), Rebuild.NEVER)
    np.testing.assert_allclose(space.frozen.rows, np.stack([old, np.zeros(6)]), atol=1e-6)


def test_nodes_that_are_taken_out_are_not_shared() -> None:
    space = mean_space()
    first = space.take_nodes(None)
    second = space.take_nodes(None)
    assert space.nodes is None
    assert first is not second
    np.testing.assert_array_equal(first.rows, second.rows)
    space.return_nodes(first)
    assert space.nodes is first
    space.drop_nodes()
    assert space.nodes is None


def test_concurrent_peeks_do_not_disturb_each_other() -> None:
    pack = superclass_pack(seed=4, images=80, superclasses=20, members=5, views=1, dim=64, aux_dim=48)
    samples = [pack.sample(index) for index in range(len(pack))]
    method = make_method("cosmic@paper", graph="degree", order=1, ratio=0.05)
    state = method.init(pack.task())
    method.steps(state, samples[:40])
    alone = [method.peek(state, sample).scores for sample in samples]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda sample: method.peek(state, sample).scores, samples * 3))
    for number, scores in enumerate(together):
        np.testing.assert_array_equal(scores, alone[number % len(samples)])


@pytest.mark.parametrize("centre", ["mean", "ema", "ema_all"])
def test_a_loaded_state_continues_bit_by_bit(centre: str, tmp_path: Path) -> None:
    pack = superclass_pack(seed=6, images=90, superclasses=5, members=5, views=1, dim=40, aux_dim=32)
    samples = [pack.sample(index) for index in range(len(pack))]
    method = make_method("cosmic", graph="degree", aux_degree=5.0, aux_centre=centre, centre=centre)
    state = method.init(pack.task())
    method.steps(state, samples[:60])
    save(tmp_path / "state", method, state)
    again = load(tmp_path / "state", method, pack.task())
    for sample in samples[60:]:
        np.testing.assert_array_equal(method.step(state, sample).scores, method.step(again, sample).scores)
    nodes = [space.nodes.similarity.features for s in (state, again) for space in (s.css, s.afv)]
    np.testing.assert_array_equal(nodes[0], nodes[2])
    np.testing.assert_array_equal(nodes[1], nodes[3])


@pytest.mark.skipif(COMPILED is None, reason="the plain path keeps no nodes")
def test_validation_changes_nothing_and_loading_drops_the_nodes(tmp_path: Path) -> None:
    pack = superclass_pack(seed=6, images=20, superclasses=3, members=3, views=1, dim=24, aux_dim=16)
    method = make_method("cosmic@official")
    state = method.init(pack.task())
    method.steps(state, [pack.sample(index) for index in range(20)])
    nodes, digest = state.css.nodes, state_digest(state)
    state.css.validate()
    assert state.css.nodes is nodes is not None
    assert state_digest(state) == digest
    save(tmp_path / "state", method, state)
    assert load(tmp_path / "state", method, pack.task()).css.nodes is None
