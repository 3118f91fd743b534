"""Maximal cliques: the plain path, and the calls of the compiled one, which gives the same cliques."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.cosmic.graph.class_graph import Graph, bits, rows_of, second_order
from cosmic_tta.methods.cosmic.graph.density import Density, first_order
from cosmic_tta.methods.cosmic.graph.similarity import CliqueSearch, Similarity

MAX_CLIQUES = 20_000
VISITS_PER_CLIQUE = 100


class Cliques(NamedTuple):
    """Cliques in lexicographic order, the nodes of one clique after those of another."""

    nodes: Ints  # [sum of sizes], ascending within a clique
    sizes: Ints  # [m]
    shares: Array  # [m] one over the size
    complete: bool  # whether these are all maximal cliques

    def members(self) -> list[tuple[int, ...]]:
        """Return the cliques as tuples of nodes."""
        ends = np.cumsum(self.sizes)
        return [tuple(self.nodes[end - size : end].tolist()) for end, size in zip(ends, self.sizes, strict=True)]


def cliques_of(
    similarity: Similarity, density: Density, present: Bools, common: int | None, max_cliques: int
) -> Cliques:
    """Build the graph of the present nodes and return its cliques. A node that is not present is a clique of its own.

    Where the similarities are kept, one compiled call does all this: `graph_cliques` in kernel/cosmic/hyperclasses.c.

    Args:
        similarity: Of all nodes.
        density: Of the graph.
        present: The nodes that take part, [n].
        common: Neighbours that the ends of an edge must share in the second-order graph; None: first order.
        max_cliques: See `maximal_cliques`.
    """
    nodes = int(np.count_nonzero(present))
    given = None if nodes == len(present) else present
    found = similarity.cliques(clique_search(density, nodes, common, max_cliques), given)
    if found is not None:
        return _read(*found)
    graph = first_order(similarity, density, given)
    return maximal_cliques(graph if common is None else second_order(graph, common), max_cliques)


def clique_search(density: Density, nodes: int, common: int | None, max_cliques: int) -> CliqueSearch:
    """Return the density of a graph and the limits of its clique search, as the kernel takes them."""
    return CliqueSearch(
        control=("threshold", "degree", "degeneracy").index(density.control),
        value=density.value,
        pairs=max(1, min(density.pairs(nodes), nodes * (nodes - 1) // 2)),
        common=-1 if common is None else common,
        max_cliques=max_cliques,
        max_visits=VISITS_PER_CLIQUE * max_cliques,
    )


def maximal_cliques(graph: Graph, max_cliques: int = MAX_CLIQUES) -> Cliques:
    """Return all maximal cliques; a node without neighbours is a clique of one.

    The algorithm is Bron–Kerbosch with pivoting, with the outer level in degeneracy order (Eppstein, Löffler, Strash
    2010, "Listing all maximal cliques in sparse graphs in near-optimal time"). It uses an explicit stack and integer
    bitsets. It takes O(b·n·3^(b/3)) for degeneracy b.

    A dense graph can have exponentially many cliques. The enumeration stops past `max_cliques`, nodes without
    neighbours not counted, or past a hundred times as many visits of a neighbourhood. Then every node gets one maximal
    clique, grown greedily: at most n cliques, each maximal, each node in at least one.
    Compiled: the search in kernel/simd/clique_loops.h, the rest in kernel/cosmic/cliques.c.

    >>> from cosmic_tta.methods.cosmic.graph.class_graph import graph_of
    >>> maximal_cliques(graph_of([0b0110, 0b0101, 0b0011, 0b0000])).members()
    [(0, 1, 2), (3,)]
    """
    max_visits = VISITS_PER_CLIQUE * max_cliques
    if COMPILED is not None:
        return _read(*COMPILED.maximal_cliques(graph, max_cliques, max_visits))
    rows = rows_of(graph)
    found: list[tuple[int, ...]] = [(node,) for node, row in enumerate(rows) if not row]
    isolated = len(found)
    visits = 0
    later = (1 << len(rows)) - 1  # nodes that have not been a start yet
    for node in degeneracy_order(rows):
        later ^= 1 << node
        row = rows[node]
        if not row:
            continue
        # Invariant of an entry: `inside` is a clique. `candidates` and `excluded` together are all common neighbours of
        # its nodes; the cliques with a node of `excluded` were listed before.
        stack: list[tuple[tuple[int, ...], int, int]] = [((node,), row & later, row & ~later)]
        while stack and len(found) - isolated <= max_cliques and visits <= max_visits:
            inside, candidates, excluded = stack.pop()
            if not candidates:
                if not excluded:
                    found.append(tuple(sorted(inside)))
                continue
            around = bits(candidates | excluded)
            visits += len(around)
            pivot = max(around, key=lambda other: (candidates & rows[other]).bit_count())
            for other in bits(candidates & ~rows[pivot]):
                near = rows[other]
                stack.append(((*inside, other), candidates & near, excluded & near))
                candidates ^= 1 << other
                excluded |= 1 << other
    if len(found) - isolated > max_cliques or visits > max_visits:
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
    """Grow one maximal clique from every node, trying its neighbours in descending order of degree."""
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
    """Order the nodes so that each has as few later neighbours as possible.

    The next node is the one with the fewest remaining neighbours; ties go to the lowest index.
    """
    degree = [row.bit_count() for row in rows]
    heap = [(d, node) for node, d in enumerate(degree)]
    heapify(heap)
    order: list[int] = []
    left = (1 << len(rows)) - 1
    while heap:
        least, node = heappop(heap)
        if not left >> node & 1 or degree[node] != least:  # outdated entry
            continue
        order.append(node)
        left ^= 1 << node
        for other in bits(rows[node] & left):
            degree[other] -= 1
            heappush(heap, (degree[other], other))
    return order
