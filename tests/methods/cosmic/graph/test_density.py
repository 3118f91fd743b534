from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import Array, Bools, as_float32, unit
from cosmic_tta.methods.cosmic.graph.density import (
    Density,
    degeneracy_threshold,
    degree_threshold,
    first_order,
    grown_threshold,
)
from cosmic_tta.methods.cosmic.graph.similarity import Similarity
from tests.support.class_graphs import matrix


def nodes_of(seed: int, nodes: int, width: int, zero_rows: int = 0) -> tuple[Similarity, Array]:
    """Nodes, and all their similarities as this path computes them."""
    features = unit(as_float32(np.random.default_rng(seed).standard_normal((nodes, width))))
    features[:zero_rows] = 0
    similarity = Similarity(features)
    lower = np.zeros((nodes, nodes), np.float32)
    for start, block in similarity._blocks():
        lower[start : start + len(block)] = block
    lower = np.tril(lower)
    np.testing.assert_allclose(lower, np.tril(features @ features.T), atol=1e-6)
    return similarity, lower + np.tril(lower, -1).T


@given(st.integers(0, 10**6), st.integers(1, 70), st.floats(-0.9, 0.9))
def test_first_order_is_the_plain_comparison_without_self_loops(seed: int, nodes: int, threshold: float) -> None:
    similarity, s = nodes_of(seed, nodes, 5)
    expected = (s > np.float32(threshold)) & ~np.eye(nodes, dtype=bool)
    graph = first_order(similarity, Density("threshold", threshold))
    np.testing.assert_array_equal(matrix(graph), expected)
    present: Bools = np.random.default_rng(seed).random(nodes) < 0.7
    graph = first_order(similarity, Density("threshold", threshold), present)
    np.testing.assert_array_equal(matrix(graph), expected & present & present[:, None])


def literal_bisection(s: Array, target: float) -> float:
    """The published search, over the whole matrix in every round."""
    n = len(s)
    low, high = float(s.min()), float(s.max())
    middle = (low + high) / 2
    for _ in range(500):
        middle = (low + high) / 2
        edges = s > np.float32(middle)
        np.fill_diagonal(edges, False)
        mean = edges.sum() / n
        if abs(mean - target) < 0.01:
            break
        if mean < target:
            high = middle
        else:
            low = middle
    return middle


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.0, 1.0, 4.0, 5.0, 80.0]))
def test_degree_threshold_is_the_published_bisection(seed: int, nodes: int, zero_rows: int, target: float) -> None:
    similarity, s = nodes_of(seed, nodes, 6, zero_rows)
    density = Density("degree", target)
    expected = literal_bisection(s, target)
    assert degree_threshold(similarity.largest(density.pairs(nodes)), target) == expected
    edges = (s > np.float32(expected)) & ~np.eye(nodes, dtype=bool)
    np.testing.assert_array_equal(matrix(first_order(similarity, density)), edges)


@given(st.integers(0, 10**6), st.integers(2, 60), st.sampled_from([1.0, 4.0]))
def test_nodes_that_are_not_present_take_no_part(seed: int, nodes: int, target: float) -> None:
    similarity, s = nodes_of(seed, nodes, 6)
    present: Bools = np.random.default_rng(seed).random(nodes) < 0.6
    some = np.flatnonzero(present)
    if not len(some):
        return
    threshold = literal_bisection(s[np.ix_(some, some)], target)
    expected = (s > np.float32(threshold)) & ~np.eye(nodes, dtype=bool) & present & present[:, None]
    np.testing.assert_array_equal(matrix(first_order(similarity, Density("degree", target), present)), expected)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 4), st.integers(0, 6))
def test_degeneracy_threshold_is_the_lowest_that_fits(seed: int, nodes: int, zero_rows: int, target: int) -> None:
    similarity, s = nodes_of(seed, nodes, 4, zero_rows)
    density = Density("degeneracy", target)
    threshold = degeneracy_threshold(similarity.largest(density.pairs(nodes)), target)

    def degeneracy(t: float) -> int:
        edges = (s > np.float32(t)) & ~np.eye(nodes, dtype=bool)
        return max(nx.core_number(nx.from_numpy_array(edges.astype(int))).values(), default=0)

    assert degeneracy(threshold) <= target
    lower = [v for v in np.unique(s[np.triu_indices(nodes, 1)]) if v < threshold]
    if threshold > -np.inf:
        assert degeneracy(lower[-1] if lower else -np.inf) > target
    edges = (s > np.float32(threshold)) & ~np.eye(nodes, dtype=bool)
    np.testing.assert_array_equal(matrix(first_order(similarity, density)), edges)


def test_threshold_grows_up_to_one() -> None:
    assert grown_threshold(0.85, 1e-5, 0) == 0.85
    assert grown_threshold(0.85, 1e-5, 1000) == pytest.approx(0.86)
    assert grown_threshold(0.85, 1e-5, 10**6) == 1.0
