"""The class graph as a bit matrix, and the second-order graph that is made from the first-order one.

`density.first_order` makes the first-order graph; `cliques` searches its second-order graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.kernel import COMPILED

Graph = NDArray[np.uint64]  # [n, words]: bit j of row i says that i and j are neighbours; symmetric, no self-loops
Nodes = NDArray[np.int32]


def empty_graph(nodes: int) -> Graph:
    """Return a graph without edges."""
    return np.zeros((nodes, (nodes + 63) // 64), np.uint64)


def connect(graph: Graph, pairs: Nodes) -> None:
    """Add the edges of pairs of nodes, [2, m], to a graph."""
    for one, other in (pairs, pairs[::-1]):
        np.bitwise_or.at(graph, (one, other // 64), np.uint64(1) << (other % 64).astype(np.uint64))


def rows_of(graph: Graph) -> list[int]:
    """Return each node's neighbours as an integer bitset."""
    return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in graph]


def graph_of(rows: Sequence[int]) -> Graph:
    """Return the graph of integer bitsets, one per node.

    >>> rows_of(graph_of([0b10, 0b101, 0b10]))
    [2, 5, 2]
    """
    graph = empty_graph(len(rows))
    for node, row in enumerate(rows):
        graph[node] = np.frombuffer(row.to_bytes(8 * graph.shape[1], "little"), "<u8")
    return graph


def second_order(graph: Graph, common: int = 1) -> Graph:
    """Keep the edges whose ends share at least `common` neighbours.

    With `common=1` this is the paper's FOG ⊙ (FOG·FOG) > 0; the published program requires two.
    Compiled: kernel/cosmic/class_graph.c.
    """
    if COMPILED is not None:
        kept = empty_graph(len(graph))
        COMPILED.second_order(graph, common, kept)
        return kept
    rows = rows_of(graph)
    masks = []
    for row in rows:
        mask = 0
        for other in bits(row):
            if (row & rows[other]).bit_count() >= common:
                mask |= 1 << other
        masks.append(mask)
    return graph_of(masks)


def bits(row: int) -> list[int]:
    """List the positions of the set bits, lowest first.

    >>> bits(0b1101)
    [0, 2, 3]
    """
    found = []
    while row:
        low = row & -row
        found.append(low.bit_length() - 1)
        row ^= low
    return found
