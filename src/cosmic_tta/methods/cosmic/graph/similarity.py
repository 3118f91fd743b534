"""Similarities of nodes, and the most similar pairs.

A large graph's similarities are computed in row blocks; the whole matrix is never stored.
Compiled: kernel/cosmic/similarity.c, called by `update`, `_blocks` and `_largest_compiled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Bools
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.cosmic.graph.class_graph import Graph, Nodes, connect, empty_graph

MAX_KEPT_NODES = 4096  # up to this many nodes the compiled path keeps the similarity matrix: 64 MB
BLOCK_ROWS = 256


class Pairs(NamedTuple):
    """The most similar pairs among `nodes` nodes, unsorted."""

    nodes: int
    values: Array
    left: Nodes
    right: Nodes
    cut: float  # every pair above it is listed
    lowest: float  # of all similarities, including the diagonal
    highest: float


class CliqueSearch(NamedTuple):
    """The density of a graph and the limits of the clique search in it, as the kernel takes them."""

    control: int  # 0: threshold, 1: mean degree, 2: degeneracy
    value: float
    pairs: int  # so many of the most similar pairs determine the threshold
    common: int  # neighbours that the ends of an edge share in the second-order graph; -1: first order
    max_cliques: int
    max_visits: int  # of a node's neighbourhood


class Similarity:
    """Dot products of all pairs of nodes.

    On the compiled path, the bits of a product depend on its two rows alone. So the matrix is kept, unless the graph is
    too large, and only the products of changed nodes are computed again.
    """

    def __init__(self, features: Array) -> None:
        self.features = features  # [n, D]
        keeps = is_kept(len(features))
        self._matrix = np.empty((len(features), len(features)), np.float32) if keeps else None
        # The same features, interleaved in panels of sixteen nodes: [n / 16, D, 16].
        self.panels = np.zeros(((len(features) + 15) // 16 * keeps, features.shape[1], 16), np.float32)
        self._computed = False
        self.floor = -np.inf  # enough pairs for the last graph lay above it; the next list begins there

    def update(self, changed: Bools) -> None:
        """Compute the similarities of changed nodes again, [n]."""
        if self._matrix is not None:
            changed = changed if self._computed else np.ones_like(changed)
            COMPILED.update_similarity(self.features, changed, self.panels, self._matrix)
            self._computed = True

    def cliques(self, search: CliqueSearch, present: Bools | None) -> Any:
        """Return the cliques of the graph in one compiled call; None where no matrix is kept.

        Compiled alone: kernel/cosmic/hyperclasses.c.
        """
        if self.kept is None:
            return None
        *found, self.floor = COMPILED.graph_cliques(self.kept, present, *search, self.floor)
        return found

    @property
    def kept(self) -> Array | None:
        """The similarity matrix, where it is kept; only its lower triangle is valid."""
        if not self._computed:
            self.update(np.ones(len(self.features), bool))
        return self._matrix

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield the first row and the rows of each block, [rows, n]; only its lower triangle is valid."""
        if self.kept is not None:
            yield 0, self.kept
            return
        n = len(self.features)
        room = np.empty((min(BLOCK_ROWS, n), n), np.float32)
        for start in range(0, n, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, n)
            block = room[: stop - start]
            if COMPILED is not None:
                COMPILED.similarity_rows(self.features, start, block)
            else:
                block[:, :stop] = self.features[start:stop] @ self.features[:stop].T
            yield start, block

    def largest(self, keep: int, present: Bools | None = None) -> Pairs:
        """Return at least the `keep` most similar pairs of present nodes, if there are so many."""
        nodes = len(self.features) if present is None else int(present.sum())
        keep = max(1, min(keep, nodes * (nodes - 1) // 2))
        found = _largest_plain if COMPILED is None else _largest_compiled
        return found(self._blocks(), keep, nodes, present)

    def above(self, threshold: float, present: Bools | None = None) -> Graph:
        """Return the graph of all pairs above the threshold. Compiled: kernel/cosmic/class_graph.c."""
        graph = empty_graph(len(self.features))
        for start, block in self._blocks():
            if COMPILED is not None:
                COMPILED.connect_above(block, start, present, threshold, graph)
            else:
                edges = _lower(block, start, present) & (block > np.float32(threshold))
                connect(graph, np.add(np.nonzero(edges), [[start], [0]]).astype(np.int32))
        return graph


def is_kept(nodes: int) -> bool:
    """Return whether the similarities of so many nodes are kept from one graph to the next."""
    return COMPILED is not None and nodes <= MAX_KEPT_NODES


def _lower(block: Array, start: int, present: Bools | None) -> Bools:
    """Return which entries of a block are pairs of present nodes, [rows, n]."""
    rows = np.arange(start, start + len(block))[:, None]
    lower: Bools = np.arange(block.shape[1]) < rows
    return lower if present is None else lower & present & present[rows]


def _largest_plain(blocks: Iterator[tuple[int, Array]], keep: int, nodes: int, present: Bools | None) -> Pairs:
    values, pairs = np.zeros(0, np.float32), np.zeros((2, 0), np.int32)
    cut, lowest, highest = -np.inf, np.inf, -np.inf
    for start, block in blocks:
        own = np.arange(start, start + len(block))
        diagonal = block[own - start, own] if present is None else block[own - start, own][present[own]]
        lower = _lower(block, start, present)
        entries = np.concatenate([block[lower], diagonal])
        lowest, highest = min(lowest, entries.min(initial=np.inf)), max(highest, entries.max(initial=-np.inf))
        right, left = np.nonzero(lower & (block > cut))
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
        progress = COMPILED.collect_pairs(block, start, present, keep, values, left, right, *progress)
    filled, cut, lowest, highest = progress
    return Pairs(nodes, values[:filled], left[:filled], right[:filled], cut, lowest, highest)
