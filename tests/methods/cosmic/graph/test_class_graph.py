from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.methods.cosmic.graph.class_graph import empty_graph, graph_of, rows_of, second_order
from cosmic_tta.methods.cosmic.graph.density import Density, first_order
from cosmic_tta.methods.cosmic.graph.similarity import Similarity
from tests.support.class_graphs import matrix


@given(st.lists(st.integers(0, 2**200), max_size=200))
def test_bitsets_and_graphs_are_the_same_thing(rows: list[int]) -> None:
    cut = [row % (1 << len(rows)) for row in rows]
    assert rows_of(graph_of(cut)) == cut
    assert graph_of(cut).shape == empty_graph(len(rows)).shape


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 3))
def test_second_order_is_the_product_of_adjacencies(seed: int, nodes: int, common: int) -> None:
    features = unit(as_float32(np.random.default_rng(seed).standard_normal((nodes, 4))))
    graph = first_order(Similarity(features), Density("threshold", 0.2))
    adjacency = matrix(graph)
    expected = adjacency * (adjacency @ adjacency >= common)
    np.testing.assert_array_equal(matrix(second_order(graph, common)), expected)
