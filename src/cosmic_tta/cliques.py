"""Maximal cliques: the pure-Python, readable definition."""

from __future__ import annotations

from typing import NamedTuple

from cosmic_tta.graph import Graph, bits

MAX_CLIQUES = 20_000


class Cliques(NamedTuple):
    """Cliques as ascending tuples of nodes, in lexicographic order; whether they are all of them."""

    members: list[tuple[int, ...]]
    complete: bool


def maximal_cliques(graph: Graph, max_cliques: int = MAX_CLIQUES) -> Cliques:
    """Return all maximal cliques, lonely nodes included as cliques of one.

    Bron–Kerbosch with pivoting, the outer level in degeneracy order (Eppstein, Löffler, Strash 2010,
    "Listing all maximal cliques in sparse graphs in near-optimal time"), with a stack of its own instead
    of recursion and sets as integer bitsets. Time O(b·n·3^(b/3)) for degeneracy b.

    A dense graph can have exponentially many. Past `max_cliques` (lonely nodes not counted), or a hundred
    times as many looks at a neighbourhood, the enumeration stops and every node gets one maximal clique,
    grown greedily: at most n of them, each a true maximal clique, each node in at least one.

    >>> maximal_cliques((0b0110, 0b0101, 0b0011, 0b0000)).members
    [(0, 1, 2), (3,)]
    """
    found: list[tuple[int, ...]] = [(node,) for node, row in enumerate(graph) if not row]
    lonely = len(found)
    looks = 0
    later = (1 << len(graph)) - 1  # nodes not yet taken as a start
    for node in degeneracy_order(graph):
        later ^= 1 << node
        row = graph[node]
        if not row:
            continue
        # Invariant of an entry: `inside` is a clique; `candidates` and `excluded` are together all the nodes next
        # to every one of its nodes, `excluded` those whose cliques with it were listed before.
        stack: list[tuple[tuple[int, ...], int, int]] = [((node,), row & later, row & ~later)]
        while stack and len(found) - lonely <= max_cliques and looks <= 100 * max_cliques:
            inside, candidates, excluded = stack.pop()
            if not candidates:
                if not excluded:
                    found.append(tuple(sorted(inside)))
                continue
            around = bits(candidates | excluded)
            looks += len(around)
            pivot = max(around, key=lambda other: (candidates & graph[other]).bit_count())
            for other in bits(candidates & ~graph[pivot]):
                near = graph[other]
                stack.append(((*inside, other), candidates & near, excluded & near))
                candidates ^= 1 << other
                excluded |= 1 << other
    if len(found) - lonely > max_cliques or looks > 100 * max_cliques:
        return Cliques(sorted(set(greedy_cliques(graph))), complete=False)
    return Cliques(sorted(found), complete=True)


def greedy_cliques(graph: Graph) -> list[tuple[int, ...]]:
    """Grow one maximal clique from every node, trying its neighbours by falling degree."""
    degree = [row.bit_count() for row in graph]
    grown = []
    for node, row in enumerate(graph):
        inside, candidates = [node], row
        for other in sorted(bits(row), key=lambda other: -degree[other]):
            if candidates >> other & 1:
                inside.append(other)
                candidates &= graph[other]
        grown.append(tuple(sorted(inside)))
    return grown


def degeneracy_order(graph: Graph) -> list[int]:
    """Order the nodes so that each has as few later neighbours as possible (buckets by degree)."""
    degree = [row.bit_count() for row in graph]
    buckets: list[set[int]] = [set() for _ in range(max(degree, default=0) + 1)]
    for node, d in enumerate(degree):
        buckets[d].add(node)
    order = []
    left = (1 << len(graph)) - 1
    lowest = 0
    while left:
        while not buckets[lowest]:
            lowest += 1
        node = buckets[lowest].pop()
        order.append(node)
        left ^= 1 << node
        for other in bits(graph[node] & left):
            buckets[degree[other]].remove(other)
            degree[other] -= 1
            buckets[degree[other]].add(other)
        lowest = max(0, lowest - 1)
    return order
