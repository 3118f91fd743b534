from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.cosmic.graph.cliques import Cliques
from cosmic_tta.methods.cosmic.hyperclasses import ExponentialScore, HyperClasses

NODES = unit(as_float32(np.random.default_rng(0).standard_normal((5, 6))))
CLIQUES = [(0, 1, 2), (2, 3), (4,)]


def listed(cliques: list[tuple[int, ...]]) -> Cliques:
    nodes = np.array([node for clique in cliques for node in clique])
    sizes = np.array([len(clique) for clique in cliques])
    return Cliques(nodes, sizes, np.float32(1) / as_float32(sizes), True)


@pytest.mark.parametrize("cosine", [False, True])
def test_an_affinity_is_the_product_with_the_mean_of_the_nodes_or_its_cosine(cosine: bool) -> None:
    hyper = HyperClasses.from_cliques(listed(CLIQUES), NODES, cosine=cosine)
    means = as_float32([NODES[list(c)].mean(axis=0) for c in CLIQUES])
    query = NODES[3]
    nearest = hyper.nearest(NODES @ query, 1, "ceil")
    np.testing.assert_allclose(nearest.affinities, (unit(means) if cosine else means) @ query, atol=1e-6)
    assert [hyper.members(i).tolist() for i in range(3)] == [list(c) for c in CLIQUES]


@pytest.mark.parametrize(
    ("ratio", "rounding", "count"),
    [(0.2, "floor", 1), (0.5, "floor", 1), (0.5, "ceil", 2), (2 / 3, "ceil", 2), (1, "ceil", 3)],
)
def test_the_nearest_are_selected_and_both_roundings_hold(ratio: float, rounding: str, count: int) -> None:
    hyper = HyperClasses.from_cliques(listed(CLIQUES), NODES, cosine=True)
    query = unit(NODES[4] + np.float32(0.1) * NODES[2])
    nearest = hyper.nearest(NODES @ query, ratio, rounding)  # type: ignore[arg-type]
    selected = nearest.selected()
    assert len(selected) == nearest.keep == count
    np.testing.assert_array_equal(selected, np.argsort(-nearest.affinities)[:count])
    inside = {node for index in selected for node in CLIQUES[index]}
    assert set(np.flatnonzero(nearest.inliers).tolist()) == inside


@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0, 1))
def test_among_equals_the_first_are_selected(seed: int, number: int, ratio: float) -> None:
    scores = as_float32(np.random.default_rng(seed).integers(0, 3, number))
    hyper = HyperClasses.from_cliques(
        listed([(node,) for node in range(number)]), np.eye(number, dtype=np.float32), cosine=False
    )
    nearest = hyper.nearest(scores, ratio, "ceil")
    expected = sorted(range(number), key=lambda node: (-scores[node], node))[: nearest.keep]
    assert nearest.selected().tolist() == expected
    assert np.flatnonzero(nearest.inliers).tolist() == sorted(expected)


def test_only_inliers_score() -> None:
    hyper = HyperClasses.from_cliques(listed(CLIQUES), NODES, cosine=True)
    query, today = NODES @ NODES[3], as_float32([1, 0.5, 0, -1, 0.25])
    nearest = hyper.nearest(query, 0.6, "floor", ExponentialScore(today, 2.0, 5.0))
    assert nearest.scores is not None
    assert nearest.inliers.any()
    assert not nearest.inliers.all()
    np.testing.assert_allclose(nearest.scores, 2 * np.exp(-5 * (1 - today)) * nearest.inliers, rtol=1e-5)
    assert hyper.nearest(query, 0.6, "floor").scores is None


def test_ceil_is_not_fooled_by_floating_point() -> None:
    ten = HyperClasses.from_cliques(listed([(0,)] * 10), NODES, cosine=True)
    assert ten.nearest(NODES @ NODES[0], 0.7, "ceil").keep == 7  # 0.7·10 is 7.000000000000001 in floats


def test_contents_that_no_graph_gives_are_refused() -> None:
    good = HyperClasses.from_cliques(listed(CLIQUES), NODES, cosine=True)
    good.validate()
    HyperClasses.empty().validate()
    for bad in (
        HyperClasses(good.nodes[:-1], good.sizes, good.scale),
        HyperClasses(good.nodes, good.sizes[:-1], good.scale),
        HyperClasses(-good.nodes, good.sizes, good.scale),
        HyperClasses(good.nodes, good.sizes, good.scale * np.float32(np.nan)),
    ):
        with pytest.raises(SnapshotError, match="inconsistent"):
            bad.validate()
