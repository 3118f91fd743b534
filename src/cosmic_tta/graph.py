"""Similarity → first-order graph (threshold | degree | degeneracy) → second-order graph.

A graph is a tuple of integer bitsets: bit j of `graph[i]` says that i and j are neighbours.
No node is its own neighbour. Similarities are symmetric, float32, [n, n].
"""

from __future__ import annotations

import math

import numpy as np

from cosmic_tta.ops import Array, Ints

Graph = tuple[int, ...]


def first_order(similarity: Array, threshold: float) -> Graph:
    """Connect the pairs whose similarity lies above the threshold.

    >>> s = np.array([[1, .9, .1], [.9, 1, .5], [.1, .5, 1]], np.float32)
    >>> [bin(row) for row in first_order(s, .4)]
    ['0b10', '0b101', '0b10']
    """
    edges = similarity > np.float32(threshold)
    np.fill_diagonal(edges, False)
    rows = np.packbits(edges, axis=1, bitorder="little")
    return tuple(int.from_bytes(row.tobytes(), "little") for row in rows)


def second_order(graph: Graph, common: int = 1) -> Graph:
    """Keep the edges whose ends share at least `common` neighbours.

    With `common=1` this is the paper's FOG ⊙ (FOG·FOG) > 0; the published program asks for two.
    """
    kept = []
    for row in graph:
        mask = 0
        for other in bits(row):
            if (row & graph[other]).bit_count() >= common:
                mask |= 1 << other
        kept.append(mask)
    return tuple(kept)


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


def grown_threshold(start: float, growth: float, seen: int) -> float:
    """Return the paper's t_aff after `seen` samples: it grows linearly, up to one."""
    return min(1.0, start + growth * seen)


def degree_threshold(similarity: Array, degree: float) -> float:
    """Find a threshold whose graph has about the given mean degree.

    This is the published program's bisection between the least and the greatest similarity (the
    diagonal counts), to within 0.01 of the target, in at most 500 rounds; when the target cannot be
    met, the last midpoint counts. The interval is halved in double, the comparison is in float32:
    both matter for which of two graphs comes out. It only asks how many similarities lie above
    the midpoint, so the few largest ones answer for all.
    """
    n = len(similarity)
    enough = min(math.ceil((degree + 1) * n / 2) + 1, n * (n - 1) // 2)  # more than the target can use
    largest = np.sort(_largest_pairs(similarity, enough)[0])
    low, high = float(similarity.min()), float(similarity.max())
    middle = (low + high) / 2
    for _ in range(500):
        middle = (low + high) / 2
        above = len(largest) - int(np.searchsorted(largest, np.float32(middle), side="right"))
        mean = 2 * above / n
        if abs(mean - degree) < 0.01:
            break
        before = (low, high)
        if mean < degree:
            high = middle
        else:
            low = middle
        if (low, high) == before:  # nothing lies between any more: every later round repeats this one
            break
    return middle


def degeneracy_threshold(similarity: Array, degeneracy: int) -> float:
    """Find the lowest threshold whose graph has at most the given degeneracy.

    The degeneracy is the largest core number: the least d such that every subgraph has a node
    of at most d neighbours. It falls as the threshold rises, so a bisection over the sorted
    similarities finds the place. A graph of degeneracy d has at most d·n edges, which bounds the
    candidates. Complexity: O(n² + d·n·log(d·n)·rounds of peeling).
    """
    n = len(similarity)
    bound = min(degeneracy * n + 1, n * (n - 1) // 2)
    values, left, right = _largest_pairs(similarity, bound)
    order = np.argsort(-values, kind="stable")
    values, left, right = values[order], left[order], right[order]
    if bound == n * (n - 1) // 2 and _peels(left, right, n, degeneracy):
        return -math.inf  # all edges may stay
    # Invariant: the graph of the `fits` largest pairs is thin enough, that of `fails` is not.
    fits, fails = 0, bound
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if _peels(left[:middle], right[:middle], n, degeneracy):
            fits = middle
        else:
            fails = middle
    # Pairs as similar as the first one that is too many stay out with it.
    return float(values[fits])


def _largest_pairs(similarity: Array, count: int) -> tuple[Array, Ints, Ints]:
    """Return the `count` largest similarities of unordered pairs, and the pairs, in no order."""
    n = len(similarity)
    pairs = n * (n - 1) // 2
    sample = np.sort(similarity.ravel()[:: max(1, n * n // 4096)])
    share = 2 * count / pairs if pairs else 1.0
    while True:
        # A cut-off guessed from a sample leaves few pairs to look at; one that leaves too few is lowered.
        cut = sample[int((1 - share) * len(sample))] if share < 1 else -np.inf
        left, right = np.nonzero(similarity > cut)
        upper = left < right
        if upper.sum() >= count or share >= 1:
            break
        share *= 2
    left, right = left[upper], right[upper]
    values = similarity[left, right]
    if count < len(values):
        picked = np.argpartition(values, len(values) - count)[len(values) - count :]
        values, left, right = values[picked], left[picked], right[picked]
    return values, left, right


def _peels(left: Ints, right: Ints, n: int, degeneracy: int) -> bool:
    """Whether taking away nodes of at most `degeneracy` neighbours, again and again, takes all."""
    while len(left):
        degree = np.bincount(left, minlength=n) + np.bincount(right, minlength=n)
        stays = (degree[left] > degeneracy) & (degree[right] > degeneracy)
        if stays.all():
            return False
        left, right = left[stays], right[stays]
    return True
