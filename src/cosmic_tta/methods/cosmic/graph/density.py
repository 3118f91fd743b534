"""The first-order class graph: a threshold on the similarities that gives a wanted density.

The density is a similarity threshold, a mean degree or a degeneracy.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Bools
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.cosmic.graph.class_graph import Graph, Nodes, connect, empty_graph
from cosmic_tta.methods.cosmic.graph.similarity import Pairs, Similarity


class Density(NamedTuple):
    """How the density of a graph is controlled: by a similarity threshold, a mean degree or a degeneracy."""

    control: Literal["threshold", "degree", "degeneracy"]
    value: float

    def pairs(self, nodes: int) -> int:
        """Return how many of the most similar pairs determine the threshold."""
        if self.control == "degree":
            return math.ceil((self.value + 1) * nodes / 2) + 1  # more than the target can use
        return int(self.value) * nodes + 1  # a graph of degeneracy d has at most d·n edges


def first_order(similarity: Similarity, density: Density, present: Bools | None = None) -> Graph:
    """Connect the pairs of present nodes whose similarity lies above the threshold of the density.

    Compiled: `connect_pairs` in kernel/cosmic/class_graph.c.
    """
    if density.control == "threshold":
        return similarity.above(density.value, present)
    nodes = len(similarity.features) if present is None else int(present.sum())
    if not nodes:
        return empty_graph(len(similarity.features))
    pairs = similarity.largest(density.pairs(nodes), present)
    if density.control == "degree":
        threshold = degree_threshold(pairs, density.value)
    else:
        threshold = degeneracy_threshold(pairs, int(density.value))
    if not np.float32(threshold) >= pairs.cut:  # the listed pairs do not reach down to it
        return similarity.above(threshold, present)
    graph = empty_graph(len(similarity.features))
    if COMPILED is not None:
        COMPILED.connect_pairs(pairs.values, pairs.left, pairs.right, threshold, graph)
    else:
        picked = pairs.values > np.float32(threshold)
        connect(graph, np.stack([pairs.left[picked], pairs.right[picked]]))
    return graph


def grown_threshold(start: float, growth: float, seen: int) -> float:
    """Return the paper's t_aff after `seen` samples: it grows linearly, up to one."""
    return min(1.0, start + growth * seen)


def degree_threshold(pairs: Pairs, degree: float) -> float:
    """Find a threshold whose graph has about the given mean degree.

    This is the published program's bisection between the least and the greatest similarity, diagonal included. It
    stops within 0.01 of the target, or after 500 rounds with the last midpoint. The interval is halved in float64 and
    compared in float32; both can decide between two graphs. Only the number of similarities above a midpoint matters,
    so the listed pairs suffice.
    Compiled: kernel/cosmic/density.c.
    """
    if COMPILED is not None:
        found: float = COMPILED.degree_threshold(pairs.values, pairs.nodes, degree, pairs.lowest, pairs.highest)
        return found
    largest = np.sort(pairs.values)
    low, high = pairs.lowest, pairs.highest
    middle = (low + high) / 2
    for _ in range(500):
        middle = (low + high) / 2
        above = len(largest) - int(np.searchsorted(largest, np.float32(middle), side="right"))
        mean = 2 * above / pairs.nodes
        if abs(mean - degree) < 0.01:
            break
        before = (low, high)
        if mean < degree:
            high = middle
        else:
            low = middle
        if (low, high) == before:  # no number lies between: later rounds repeat this one
            break
    return middle


def degeneracy_threshold(pairs: Pairs, degeneracy: int) -> float:
    """Find the lowest threshold whose graph has at most the given degeneracy.

    The degeneracy is the largest core number: the least d such that every subgraph has a node of at most d neighbours.
    It falls as the threshold rises, so a bisection over the sorted similarities finds the threshold. It takes
    O(d·n·log(d·n)·rounds of peeling).
    Compiled: kernel/cosmic/density.c.
    """
    everything = len(pairs.values) == pairs.nodes * (pairs.nodes - 1) // 2
    size = int(pairs.right.max(initial=0)) + 1
    if COMPILED is not None:
        found: float = COMPILED.degeneracy_threshold(
            pairs.values, pairs.left, pairs.right, size, min(degeneracy, 2**31 - 1), everything
        )
        return found
    order = np.argsort(-pairs.values, kind="stable")
    values, left, right = pairs.values[order], pairs.left[order], pairs.right[order]
    if everything and _peels(left, right, size, degeneracy):
        return -math.inf  # all edges may stay
    # Invariant: the graph of the `fits` largest pairs has at most this degeneracy, that of `fails` has more.
    fits, fails = 0, len(values)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if _peels(left[:middle], right[:middle], size, degeneracy):
            fits = middle
        else:
            fails = middle
    # The first pair that is too many is left out, and so are pairs of the same similarity.
    return float(values[fits])


def _peels(left: Nodes, right: Nodes, n: int, degeneracy: int) -> bool:
    """Return whether repeatedly removing nodes of at most `degeneracy` neighbours removes all nodes."""
    while len(left):
        degree = np.bincount(left, minlength=n) + np.bincount(right, minlength=n)
        stays = (degree[left] > degeneracy) & (degree[right] > degeneracy)
        if stays.all():
            return False
        left, right = left[stays], right[stays]
    return True
