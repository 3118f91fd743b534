from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_tta.core.arrays import Bools, as_float32, unit
from cosmic_tta.methods.cosmic.graph.class_graph import bits, graph_of, rows_of, second_order
from cosmic_tta.methods.cosmic.graph.cliques import cliques_of, degeneracy_order, greedy_cliques, maximal_cliques
from cosmic_tta.methods.cosmic.graph.density import Density, first_order
from cosmic_tta.methods.cosmic.graph.similarity import Similarity

Rows = tuple[int, ...]


def random_graph(seed: int, nodes: int, density: float) -> Rows:
    edges = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < density, k=1)
    edges |= edges.T
    return tuple(sum(1 << int(other) for other in np.flatnonzero(row)) for row in edges)


def as_networkx(graph: Rows) -> nx.Graph:
    made = nx.Graph()
    made.add_nodes_from(range(len(graph)))
    made.add_edges_from((node, other) for node, row in enumerate(graph) for other in bits(row))
    return made


def test_cliques_equal_those_of_networkx_on_graphs_of_every_density() -> None:
    compared = np.zeros(10, int)  # by density

    @settings(max_examples=2200)
    @given(st.integers(0, 2**32), st.integers(0, 26), st.floats(0, 1))
    def compare(seed: int, nodes: int, density: float) -> None:
        graph = random_graph(seed, nodes, density)
        cliques = maximal_cliques(graph_of(graph))
        assert cliques.complete
        assert cliques.members() == sorted(tuple(sorted(clique)) for clique in nx.find_cliques(as_networkx(graph)))
        compared[min(9, int(10 * density))] += 1

    compare()
    assert compared.sum() >= 2000
    assert compared.min() >= 50


@pytest.mark.parametrize("density", [0.2, 0.5, 0.9, 0.99])
def test_a_dense_graph_falls_back_instead_of_hanging(density: float) -> None:
    graph = random_graph(1, 800, density)
    cliques = maximal_cliques(graph_of(graph))  # without the limit, this takes minutes or longer
    assert not cliques.complete
    _all_maximal_and_covering(graph, cliques.members())


def test_a_moon_moser_graph_has_exponentially_many_cliques_and_is_limited() -> None:
    nodes = 90  # thirty triples, each node next to all but its own triple: 3^30 maximal cliques
    graph = tuple(((1 << nodes) - 1) & ~(0b111 << node // 3 * 3) for node in range(nodes))
    cliques = maximal_cliques(graph_of(graph))
    assert not cliques.complete
    _all_maximal_and_covering(graph, cliques.members())


def test_the_limit_counts_cliques_but_not_nodes_without_neighbours() -> None:
    path = graph_of((0b10, 0b101, 0b10, 0, 0, 0))
    assert maximal_cliques(path, max_cliques=2).complete
    assert not maximal_cliques(path, max_cliques=1).complete


def _all_maximal_and_covering(graph: Rows, cliques: list[tuple[int, ...]]) -> None:
    assert len(set(cliques)) == len(cliques) <= len(graph)
    assert {node for clique in cliques for node in clique} == set(range(len(graph)))
    for clique in cliques:
        common = (1 << len(graph)) - 1
        for node in clique:
            common &= graph[node] | 1 << node
        assert bits(common) == list(clique)  # a clique, and no node is next to all of it


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0, 1))
def test_greedy_cliques_are_maximal_and_cover_every_node(seed: int, nodes: int, density: float) -> None:
    graph = random_graph(seed, nodes, density)
    _all_maximal_and_covering(graph, sorted(set(greedy_cliques(graph))))


@given(st.integers(0, 2**32), st.integers(0, 30), st.floats(0, 1))
def test_degeneracy_order_leaves_as_few_later_neighbours_as_possible(seed: int, nodes: int, density: float) -> None:
    graph = random_graph(seed, nodes, density)
    order = degeneracy_order(graph)
    assert sorted(order) == list(range(nodes))
    position = {node: index for index, node in enumerate(order)}
    later = [sum(position[other] > position[node] for other in bits(row)) for node, row in enumerate(graph)]
    assert max(later, default=0) == max(nx.core_number(as_networkx(graph)).values(), default=0)


@given(
    st.integers(0, 2**32),
    st.integers(1, 70),
    st.sampled_from([Density("threshold", 0.1), Density("degree", 4), Density("degeneracy", 3)]),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
)
def test_one_compiled_call_or_step_by_step_is_the_same(
    seed: int, nodes: int, density: Density, common: int | None, gaps: bool
) -> None:
    rng = np.random.default_rng(seed)
    similarity = Similarity(unit(as_float32(rng.standard_normal((nodes, 6)))))
    present: Bools = rng.random(nodes) < (0.7 if gaps else 2)
    graph = first_order(similarity, density, present)
    expected = maximal_cliques(graph if common is None else second_order(graph, common))
    for _ in range(2):  # the second time with the floor of the first
        found = cliques_of(similarity, density, present, common, 20_000)
        assert found.members() == expected.members()
        assert found.complete == expected.complete


@given(st.integers(0, 2**32), st.integers(0, 80), st.floats(0, 1))
def test_every_clique_is_a_clique_in_the_graph_s_bits(seed: int, nodes: int, density: float) -> None:
    edges = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < density, k=1)
    edges |= edges.T
    graph = graph_of([sum(1 << int(other) for other in np.flatnonzero(row)) for row in edges])
    cliques = maximal_cliques(graph, max_cliques=50)
    for clique in cliques.members():
        assert all(rows_of(graph)[one] >> other & 1 for one in clique for other in clique if one != other)
