"""Hyper-classes of a class graph, and the inlier nodes that the nearest of them select."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, affinity, as_float32
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.explanation import HyperClass
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.cosmic.graph.cliques import Cliques

Rounding = Literal["floor", "ceil"]


@dataclass(frozen=True)
class HyperClasses:
    """The cliques of a class graph.

    The centre of a hyper-class is the sum of its nodes, scaled to their mean or to unit length. Its affinity to a query
    is therefore the scaled sum of its nodes' products with the query; the centre itself is never computed.
    """

    nodes: Ints  # [sum of sizes] the nodes of one clique after those of another
    sizes: Ints  # [m]
    scale: Array  # [m]
    complete: bool = True  # False: too many maximal cliques, so these are one per node

    @classmethod
    def empty(cls) -> HyperClasses:
        """Make the value of a graph that was never built."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))

    @classmethod
    def from_cliques(cls, cliques: Cliques, features: Array, *, cosine: bool) -> HyperClasses:
        """Make one hyper-class per clique, centred at the mean of its nodes' features; of unit length with `cosine`.

        Compiled: kernel/cosmic/hyperclasses.c.
        """
        nodes, sizes, shares, complete = cliques
        if not cosine:
            return cls(nodes, sizes, shares, complete)
        length = np.empty(len(sizes), np.float32)
        if COMPILED is not None:
            COMPILED.clique_lengths(features, nodes, sizes, length)
        else:
            sums = np.add.reduceat(features[nodes], np.cumsum(sizes) - sizes, axis=0)
            length = np.linalg.norm(sums, axis=1)
        return cls(nodes, sizes, as_float32(1 / np.where(length > 0, length, np.float32(1))), complete)

    def __len__(self) -> int:
        return len(self.sizes)

    def members(self, index: int) -> Ints:
        """Return the nodes of one clique, ascending."""
        end = int(self.sizes[: index + 1].sum())
        return self.nodes[end - int(self.sizes[index]) : end]

    def nearest(
        self, products: Array, ratio: float, rounding: Rounding, score: ExponentialScore | None = None
    ) -> NearestHyperClasses:
        """Select the hyper-classes nearest to a query. Compiled: kernel/cosmic/hyperclasses.c.

        Args:
            products: Products of the query with the nodes of the graph, [n].
            ratio: The share of the hyper-classes to select. Ties go to the first in order.
            rounding: How that share becomes a number, which is at least one.
            score: If given, the inliers are scored by it.
        """
        share = ratio * len(self)
        keep = max(1, math.ceil(share - 1e-9) if rounding == "ceil" else int(share))
        if COMPILED is not None:
            affinities, inliers = np.empty(len(self), np.float32), np.empty(len(products), bool)
            cosine, factor, sharpness = (None, 0.0, 0.0) if score is None else score
            scores = None if score is None else np.empty_like(products)
            COMPILED.nearest_hyperclasses(
                products, self.nodes, self.sizes, self.scale, keep, affinities, inliers,
                cosine, factor, sharpness, scores,
            )  # fmt: skip
            return NearestHyperClasses(affinities, keep, inliers, scores)
        affinities = np.add.reduceat(products[self.nodes], np.cumsum(self.sizes) - self.sizes) * self.scale
        chosen = np.zeros(len(self), bool)
        chosen[np.argsort(-affinities, kind="stable")[:keep]] = True
        inliers = np.zeros(len(products), bool)
        inliers[self.nodes[np.repeat(chosen, self.sizes)]] = True
        if score is None:
            return NearestHyperClasses(affinities, keep, inliers, None)
        return NearestHyperClasses(
            affinities, keep, inliers, np.float32(score.factor) * affinity(score.cosine, score.sharpness) * inliers
        )

    def remapped(self, new_node: Ints, features: Array, changed: Bools, *, cosine: bool) -> HyperClasses:
        """Return the hyper-classes after the nodes were renumbered.

        A clique that lost a node and lies within another one is dropped. A new node becomes a clique of its own.

        Args:
            new_node: The new number of each old node; -1: it is gone.
            features: Of the new nodes, [n, D]. They rescale cliques that lost a node or have a changed one.
            changed: The new nodes whose features differ from before, [n].
            cosine: As in `from_cliques`.
        """
        if not len(self):
            return self
        kept: dict[tuple[int, ...], np.float32 | None] = {}
        shrunk = set()
        for index in range(len(self)):
            members = new_node[self.members(index)]
            clique = tuple(sorted(members[members >= 0].tolist()))
            if len(clique) < len(members):
                shrunk.add(clique)
            same = len(clique) == len(members) and not changed[list(clique)].any()
            if clique:
                kept[clique] = self.scale[index] if same else kept.get(clique)
        cliques_at: dict[int, list[set[int]]] = {}
        for clique in kept:
            for node in clique:
                cliques_at.setdefault(node, []).append(set(clique))
        for clique in shrunk & kept.keys():
            if any(set(clique) < other for other in cliques_at[clique[0]]):
                del kept[clique]
        inside = {node for clique in kept for node in clique}
        kept |= {(node,): None for node in range(len(features)) if node not in inside}
        cliques = sorted(kept)
        scale = [_scale(features, clique, cosine) if (old := kept[clique]) is None else old for clique in cliques]
        return HyperClasses(
            np.array([node for clique in cliques for node in clique], np.int64),
            np.array([len(clique) for clique in cliques], np.int64),
            np.array(scale, np.float32),
            self.complete,
        )

    def describe(self, nearest: NearestHyperClasses, node_names: Sequence[str]) -> tuple[HyperClass, ...]:
        """Return the selected hyper-classes with the names of their nodes."""
        return tuple(
            HyperClass(tuple(node_names[node] for node in self.members(index)), float(nearest.affinities[index]))
            for index in nearest.selected().tolist()
        )

    def validate(self) -> None:
        """Refuse contents that no graph has."""
        ok = (
            len(self.sizes) == len(self.scale)
            and (self.sizes > 0).all()
            and int(self.sizes.sum()) == len(self.nodes)
            and (self.nodes >= 0).all()
            and np.isfinite(self.scale).all()
        )
        if not ok:
            raise SnapshotError("the saved hyper-classes are inconsistent; the file is damaged.")


def _scale(features: Array, clique: tuple[int, ...], cosine: bool) -> np.float32:
    if not cosine:
        return np.float32(1) / np.float32(len(clique))
    length = np.float32(np.linalg.norm(features[list(clique)].sum(axis=0)))
    return np.float32(1) / length if length > 0 else np.float32(1)


class ExponentialScore(NamedTuple):
    """The score of an inlier: factor·exp(-sharpness·(1 - cosine))."""

    cosine: Array  # [n] of the nodes with the query
    factor: float
    sharpness: float


class NearestHyperClasses(NamedTuple):
    """The affinities of hyper-classes to a query, and the inliers: the nodes of the `keep` nearest ones."""

    affinities: Array  # [m]
    keep: int
    inliers: Bools  # [n]
    scores: Array | None  # [n] of the inliers, 0 elsewhere; None if they were not requested

    def selected(self) -> Ints:
        """Return the indices of the selected hyper-classes, the nearest first."""
        order: Ints = np.argsort(-self.affinities, kind="stable")[: self.keep]
        return order
