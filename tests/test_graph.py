from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.graph import (
    Graph,
    bits,
    degeneracy_threshold,
    degree_threshold,
    first_order,
    grown_threshold,
    second_order,
)
from cosmic_tta.ops import Array, as_float32, unit


def similarity(seed: int, nodes: int, width: int, zero_rows: int = 0) -> Array:
    features = unit(as_float32(np.random.default_rng(seed).standard_normal((nodes, width))))
    features[:zero_rows] = 0
    product: Array = features @ features.T
    return product


def matrix(graph: Graph) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    dense = np.zeros((len(graph), len(graph)), np.int64)
    for node, row in enumerate(graph):
        dense[node, bits(row)] = 1
    return dense


@given(st.integers(0, 10**6), st.integers(1, 70), st.floats(-0.9, 0.9))
def test_first_order_is_the_plain_comparison_without_self_loops(seed: int, nodes: int, threshold: float) -> None:
    s = similarity(seed, nodes, 5)
    expected = (s > np.float32(threshold)) & ~np.eye(nodes, dtype=bool)
    np.testing.assert_array_equal(matrix(first_order(s, threshold)), expected)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 3))
def test_second_order_is_the_product_of_adjacencies(seed: int, nodes: int, common: int) -> None:
    graph = first_order(similarity(seed, nodes, 4), 0.2)
    adjacency = matrix(graph)
    expected = adjacency * (adjacency @ adjacency >= common)
    np.testing.assert_array_equal(matrix(second_order(graph, common)), expected)


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


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 5), st.sampled_from([0.0, 1.0, 4.0, 5.0, 80.0]))
def test_degree_threshold_is_the_published_bisection(seed: int, nodes: int, zero_rows: int, target: float) -> None:
    s = similarity(seed, nodes, 6, zero_rows)
    assert degree_threshold(s, target) == literal_bisection(s, target)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 4), st.integers(0, 6))
def test_degeneracy_threshold_is_the_lowest_that_fits(seed: int, nodes: int, zero_rows: int, target: int) -> None:
    s = similarity(seed, nodes, 4, zero_rows)
    threshold = degeneracy_threshold(s, target)

    def degeneracy(t: float) -> int:
        return max(nx.core_number(nx.from_numpy_array(matrix(first_order(s, t)))).values(), default=0)

    assert degeneracy(threshold) <= target
    lower = [v for v in np.unique(s[np.triu_indices(nodes, 1)]) if v < threshold]
    if threshold > -np.inf:
        assert degeneracy(lower[-1] if lower else -np.inf) > target


def test_threshold_grows_up_to_one() -> None:
    assert grown_threshold(0.85, 1e-5, 0) == 0.85
    assert grown_threshold(0.85, 1e-5, 1000) == pytest.approx(0.86)
    assert grown_threshold(0.85, 1e-5, 10**6) == 1.0
