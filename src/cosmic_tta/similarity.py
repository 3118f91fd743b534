"""Similarities of nodes, in row blocks, and the most similar pairs; never a whole matrix of a large graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Bools

KEPT_NODES = 4096  # up to this many the compiled path keeps the matrix and brings it up to date: 64 MB
BLOCK_ROWS = 256

Graph = NDArray[np.uint64]  # [n, words]: bit j of row i says that i and j are neighbours; symmetric, no self-loops
Nodes = NDArray[np.int32]


class Pairs(NamedTuple):
    """The most similar pairs among `nodes` nodes, in no order."""

    nodes: int
    values: Array
    left: Nodes
    right: Nodes
    cut: float  # every pair above it is listed
    lowest: float  # of all similarities, a node's with itself included
    highest: float


class Similarity:
    """Dot products of all pairs of nodes.

    On the compiled path every product has the same bits however it came about, so the matrix of a graph that is not
    too large is kept, and only what changed is computed again.
    """

    def __init__(self, features: Array) -> None:
        self.features = features  # [n, D]
        keeps = is_kept(len(features))
        self._matrix = np.empty((len(features), len(features)), np.float32) if keeps else None
        # The same features, sixteen nodes side by side: [n / 16, D, 16].
        self.panels = np.zeros(((len(features) + 15) // 16 * keeps, features.shape[1], 16), np.float32)
        self._fresh = False
        self.floor = -np.inf  # a similarity above which the last list was long enough: the next one begins there

    def refresh(self, changed: Bools) -> None:
        """Take note that the features of some nodes are others now, [n]."""
        if self._matrix is not None:
            changed = changed if self._fresh else np.ones_like(changed)
            COMPILED.refresh(self.features, changed, self.panels, self._matrix)
            self._fresh = True

    def cliques(self, control: int, value: float, keep: int, present: Bools | None, *bounds: int) -> Any:
        """Go all the way from the kept matrix to the cliques in one call; None where no matrix is kept."""
        if self.kept is None:
            return None
        *found, self.floor = COMPILED.build(self.kept, present, control, value, keep, self.floor, *bounds)
        return found

    @property
    def kept(self) -> Array | None:
        """The matrix, whose lower triangle counts, where one is kept."""
        if not self._fresh:
            self.refresh(np.ones(len(self.features), bool))
        return self._matrix

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield row blocks of the lower triangle and where they begin, [rows, n]; the rest of a block means nothing."""
        if self.kept is not None:
            yield 0, self.kept
            return
        n = len(self.features)
        room = np.empty((min(BLOCK_ROWS, n), n), np.float32)
        for start in range(0, n, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, n)
            block = room[: stop - start]
            if COMPILED is not None:
                COMPILED.products(self.features, start, block)
            else:
                block[:, :stop] = self.features[start:stop] @ self.features[:stop].T
            yield start, block

    def largest(self, keep: int, present: Bools | None = None) -> Pairs:
        """List at least the `keep` most similar pairs of nodes that are present, if there are so many."""
        nodes = len(self.features) if present is None else int(present.sum())
        keep = max(1, min(keep, nodes * (nodes - 1) // 2))
        found = _largest_plain if COMPILED is None else _largest_compiled
        return found(self._blocks(), keep, nodes, present)

    def above(self, threshold: float, present: Bools | None = None) -> Graph:
        """Connect every pair above the threshold."""
        graph = empty_graph(len(self.features))
        for start, block in self._blocks():
            if COMPILED is not None:
                COMPILED.connect_above(block, start, present, threshold, graph)
            else:
                edges = _lower(block, start, present) & (block > np.float32(threshold))
                connect(graph, np.add(np.nonzero(edges), [[start], [0]]).astype(np.int32))
        return graph


def is_kept(nodes: int) -> bool:
    """Say whether the similarities of so many nodes are kept from one graph to the next."""
    return COMPILED is not None and nodes <= KEPT_NODES


def empty_graph(nodes: int) -> Graph:
    """Return a graph without edges."""
    return np.zeros((nodes, (nodes + 63) // 64), np.uint64)


def connect(graph: Graph, pairs: Nodes) -> None:
    """Join pairs of nodes, [2, m], in a graph."""
    for one, other in (pairs, pairs[::-1]):
        np.bitwise_or.at(graph, (one, other // 64), np.uint64(1) << (other % 64).astype(np.uint64))


def _lower(block: Array, start: int, present: Bools | None) -> Bools:
    """Which entries of a block are pairs of present nodes, [rows, n]."""
    rows = np.arange(start, start + len(block))[:, None]
    wanted: Bools = np.arange(block.shape[1]) < rows
    return wanted if present is None else wanted & present & present[rows]


def _largest_plain(blocks: Iterator[tuple[int, Array]], keep: int, nodes: int, present: Bools | None) -> Pairs:
    values, pairs = np.zeros(0, np.float32), np.zeros((2, 0), np.int32)
    cut, lowest, highest = -np.inf, np.inf, -np.inf
    for start, block in blocks:
        own = np.arange(start, start + len(block))
        itself = block[own - start, own] if present is None else block[own - start, own][present[own]]
        wanted = _lower(block, start, present)
        seen = np.concatenate([block[wanted], itself])
        lowest, highest = min(lowest, seen.min(initial=np.inf)), max(highest, seen.max(initial=-np.inf))
        right, left = np.nonzero(wanted & (block > cut))
        values = np.concatenate([values, block[right, left]])
        pairs = np.concatenate([pairs, np.stack([left, right + start]).astype(np.int32)], axis=1)
        if len(values) > keep:
            picked = np.argpartition(values, len(values) - keep)[len(values) - keep :]
            values, pairs = values[picked], pairs[:, picked]
            cut = float(values.min())
    return Pairs(nodes, values, pairs[0], pairs[1], cut, float(lowest), float(highest))


def _largest_compiled(blocks: Iterator[tuple[int, Array]], keep: int, nodes: int, present: Bools | None) -> Pairs:
    room = 2 * keep + 256
    values, left, right = np.empty(room, np.float32), np.empty(room, np.int32), np.empty(room, np.int32)
    progress = (0, -np.inf, np.inf, -np.inf)  # filled, cut, lowest, highest
    for start, block in blocks:
        progress = COMPILED.collect(block, start, present, keep, values, left, right, *progress)
    filled, cut, lowest, highest = progress
    return Pairs(nodes, values[:filled], left[:filled], right[:filled], cut, lowest, highest)
