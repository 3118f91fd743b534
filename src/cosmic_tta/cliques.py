"""Maximal cliques: the readable definition, whose compiled twin gives the same."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from cosmic_tta.graph import Density, bits, first_order, rows_of, second_order
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Bools, Ints
from cosmic_tta.similarity import Graph, Similarity

MAX_CLIQUES = 20_000
LOOKS_PER_CLIQUE = 100


class Cliques(NamedTuple):
    """Cliques in lexicographic order, their nodes one clique after the other; whether they are all of them."""

    nodes: Ints  # [sum of sizes], ascending within a clique
    sizes: Ints  # [m]
    shares: Array  # [m] what one node counts for in the mean of its clique
    complete: bool

    def members(self) -> list[tuple[int, ...]]:
        """Return the cliques as tuples of nodes."""
        ends = np.cumsum(self.sizes)
        return [tuple(self.nodes[end - size : end].tolist()) for end, size in zip(ends, self.sizes, strict=True)]


def cliques_of(
    similarity: Similarity, density: Density, present: Bools | None, common: int | None, max_cliques: int
) -> Cliques:
    """Build the graph of the nodes that are present, of second order if `common` is told, and return its cliques.

    A node that is not present stays alone.
    """
    nodes = len(similarity.features) if present is None else int(present.sum())
    bounds = (-1 if common is None else common, max_cliques, LOOKS_PER_CLIQUE * max_cliques)
    found = similarity.cliques(*search(density, nodes), present, *bounds)
    if found is not None:
        return _read(*found)
    graph = first_order(similarity, density, present)
    return maximal_cliques(graph if common is None else second_order(graph, common), max_cliques)


def search(density: Density, nodes: int) -> tuple[int, float, int]:
    """Say for the kernel what a graph's density is controlled by, its value, and how many pairs tell the threshold."""
    control = ("threshold", "degree", "degeneracy").index(density.control)
    return control, density.value, max(1, min(density.pairs(nodes), nodes * (nodes - 1) // 2))


def maximal_cliques(graph: Graph, max_cliques: int = MAX_CLIQUES) -> Cliques:
    """Return all maximal cliques, lonely nodes included as cliques of one.

    Bron–Kerbosch with pivoting, the outer level in degeneracy order (Eppstein, Löffler, Strash 2010,
    "Listing all maximal cliques in sparse graphs in near-optimal time"), with a stack of its own instead
    of recursion and sets as integer bitsets. Time O(b·n·3^(b/3)) for degeneracy b.

    A dense graph can have exponentially many. Past `max_cliques` (lonely nodes not counted), or a hundred
    times as many looks at a neighbourhood, the enumeration stops and every node gets one maximal clique,
    grown greedily: at most n of them, each a true maximal clique, each node in at least one.

    >>> from cosmic_tta.graph import graph_of
    >>> maximal_cliques(graph_of([0b0110, 0b0101, 0b0011, 0b0000])).members()
    [(0, 1, 2), (3,)]
    """
    most_looks = LOOKS_PER_CLIQUE * max_cliques
    if COMPILED is not None:
        return _read(*COMPILED.cliques(graph, max_cliques, most_looks))
    rows = rows_of(graph)
    found: list[tuple[int, ...]] = [(node,) for node, row in enumerate(rows) if not row]
    lonely = len(found)
    looks = 0
    later = (1 << len(rows)) - 1  # nodes not yet taken as a start
    for node in degeneracy_order(rows):
        later ^= 1 << node
        row = rows[node]
        if not row:
            continue
        # Invariant of an entry: `inside` is a clique; `candidates` and `excluded` are together all the nodes next
        # to every one of its nodes, `excluded` those whose cliques with it were listed before.
        stack: list[tuple[tuple[int, ...], int, int]] = [((node,), row & later, row & ~later)]
        while stack and len(found) - lonely <= max_cliques and looks <= most_looks:
            inside, candidates, excluded = stack.pop()
            if not candidates:
                if not excluded:
                    found.append(tuple(sorted(inside)))
                continue
            around = bits(candidates | excluded)
            looks += len(around)
            pivot = max(around, key=lambda other: (candidates & rows[other]).bit_count())
            for other in bits(candidates & ~rows[pivot]):
                near = rows[other]
                stack.append(((*inside, other), candidates & near, excluded & near))
                candidates ^= 1 << other
                excluded |= 1 << other
    if len(found) - lonely > max_cliques or looks > most_looks:
        return _listed(sorted(set(greedy_cliques(rows))), complete=False)
    return _listed(sorted(found), complete=True)


def _listed(cliques: Sequence[tuple[int, ...]], complete: bool) -> Cliques:
    nodes = np.array([node for clique in cliques for node in clique], np.int64)
    sizes = np.array([len(clique) for clique in cliques], np.int64)
    return Cliques(nodes, sizes, np.float32(1) / sizes.astype(np.float32), complete)


def _read(nodes: bytes, sizes: bytes, shares: bytes, complete: bool) -> Cliques:
    as_array = np.frombuffer
    return Cliques(as_array(nodes, np.int64), as_array(sizes, np.int64), as_array(shares, np.float32), complete)


def greedy_cliques(rows: Sequence[int]) -> list[tuple[int, ...]]:
    """Grow one maximal clique from every node, trying its neighbours by falling degree."""
    degree = [row.bit_count() for row in rows]
    grown = []
    for node, row in enumerate(rows):
        inside, candidates = [node], row
        for other in sorted(bits(row), key=lambda other: -degree[other]):
            if candidates >> other & 1:
                inside.append(other)
                candidates &= rows[other]
        grown.append(tuple(sorted(inside)))
    return grown


def degeneracy_order(rows: Sequence[int]) -> list[int]:
    """Order the nodes so that each has as few later neighbours as possible: always the one with the fewest left next.

    Among equals the first goes. An entry of the heap whose degree is no longer true is passed over.
    """
    degree = [row.bit_count() for row in rows]
    heap = [(d, node) for node, d in enumerate(degree)]
    heapify(heap)
    order: list[int] = []
    left = (1 << len(rows)) - 1
    while heap:
        least, node = heappop(heap)
        if not left >> node & 1 or degree[node] != least:
            continue
        order.append(node)
        left ^= 1 << node
        for other in bits(rows[node] & left):
            degree[other] -= 1
            heappush(heap, (degree[other], other))
    return order
