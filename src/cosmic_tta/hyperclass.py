"""Centres of classes, hyper-classes over them, and the inlier nodes that the nearest ones select."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cosmic_tta.cache import ClassCache
from cosmic_tta.errors import SnapshotError
from cosmic_tta.explanation import HyperClass
from cosmic_tta.ops import Array, Bools, Ints, affinity, as_float32, unit

CentreKind = Literal["mean", "attention", "ema", "ema_all"]
Rounding = Literal["floor", "ceil"]


@dataclass
class ClassMemory:
    """A cache of one feature space and the class centres that it keeps ready.

    `mean`: the plain mean of a class's filled slots. `ema`: an exponential moving average of the samples
    that the cache took in; `ema_all`: of all samples of the pseudo-label, without selection by entropy.
    `attention` centres depend on the query: none are kept, `centres_for` makes them.
    """

    cache: ClassCache
    centres: Array | None  # [K, D]; a class without samples is a zero row

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, kind: CentreKind) -> ClassMemory:
        """Make a memory that has seen nothing."""
        kept = None if kind == "attention" else np.zeros((classes, dim), np.float32)
        return cls(ClassCache.empty(classes, shots, dim), kept)

    def learn(self, kind: CentreKind, decay: float, label: int, feature: Array, entropy: float, sample: int) -> bool:
        """Offer a sample to the cache, keep the centres true, and say whether the cache took it."""
        first = self.cache.count[label] == 0
        took = self.cache.offer(label, feature, entropy, sample) is not None
        if self.centres is not None:
            if kind == "mean" and took:
                self.centres[label] = self.cache.slots[label, : self.cache.count[label]].mean(axis=0)
            elif kind == "ema_all" or (kind == "ema" and took):
                old = self.centres[label]
                self.centres[label] = feature if first else np.float32(decay) * old + np.float32(1 - decay) * feature
        return took

    def centres_for(self, query: Array, sharpness: float, text: Array | None = None) -> Array:
        """Return the class centres for a query, [K, D], not normalised.

        `attention` centres are made anew: each slot weighs by its affinity to the query, and an empty one,
        a zero row, adds nothing. `text` [K, D] takes part as one sample more in its class.
        """
        if self.centres is None:
            weights = affinity(self.cache.slots @ query, sharpness)  # [K, L]
            sums: Array = np.matmul(weights[:, None, :], self.cache.slots)[:, 0]  # [K, D]
            return sums if text is None else sums + affinity(text @ query, sharpness)[:, None] * text
        if text is None:
            return self.centres
        count = self.cache.count[:, None].astype(np.float32)
        mixed: Array = (count * self.centres + text) / (count + 1)
        return mixed


@dataclass(frozen=True)
class HyperClasses:
    """Cliques of a class graph: their nodes one clique after the other, their sizes, their anchors."""

    nodes: Ints  # [sum of sizes]
    sizes: Ints  # [m]
    anchors: Array  # [m, D]
    complete: bool = True  # whether these are all maximal cliques, or one a node because there were too many

    @classmethod
    def empty(cls, dim: int) -> HyperClasses:
        """Make the hyper-classes of a graph that was never built."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, dim), np.float32))

    @classmethod
    def of(
        cls, cliques: Sequence[tuple[int, ...]], features: Array, *, cosine: bool, complete: bool = True
    ) -> HyperClasses:
        """Anchor each clique at the mean of its nodes' features; at unit length for a true cosine."""
        sizes = np.array([len(clique) for clique in cliques], np.int64)
        nodes = np.array([node for clique in cliques for node in clique], np.int64)
        sums = np.add.reduceat(features[nodes], np.cumsum(sizes) - sizes, axis=0)
        anchors = as_float32(sums / sizes[:, None].astype(np.float32))
        return cls(nodes, sizes, unit(anchors) if cosine else anchors, complete)

    def __len__(self) -> int:
        return len(self.sizes)

    def members(self, index: int) -> Ints:
        """Return the nodes of one clique, ascending."""
        end = int(self.sizes[: index + 1].sum())
        return self.nodes[end - int(self.sizes[index]) : end]

    def nearest(self, query: Array, ratio: float, rounding: Rounding) -> tuple[Ints, Array]:
        """Return the share `ratio` of the hyper-classes nearest to the query, and their affinities.

        Among equals the first in order goes in.
        """
        share = ratio * len(self)
        exact = math.ceil(share - 1e-9) if rounding == "ceil" else int(share)
        affinities = self.anchors @ query  # [m]
        nearest: Ints = np.argsort(-affinities, kind="stable")[: max(1, exact)]
        return nearest, affinities[nearest]

    def inliers(self, selected: Ints, nodes: int) -> Bools:
        """Which of the graph's nodes are in any selected hyper-class, [nodes]."""
        chosen = np.zeros(len(self), bool)
        chosen[selected] = True
        mask = np.zeros(nodes, bool)
        mask[self.nodes[np.repeat(chosen, self.sizes)]] = True
        return mask

    def describe(self, selected: Ints, affinities: Array, node_names: Sequence[str]) -> tuple[HyperClass, ...]:
        """Name the members of selected hyper-classes, for people."""
        return tuple(
            HyperClass(tuple(node_names[node] for node in self.members(int(index))), float(near))
            for index, near in zip(selected, affinities, strict=True)
        )

    def validate(self) -> None:
        """Refuse contents that no graph can give."""
        ok = (
            len(self.sizes) == len(self.anchors)
            and (self.sizes > 0).all()
            and int(self.sizes.sum()) == len(self.nodes)
            and (self.nodes >= 0).all()
            and np.isfinite(self.anchors).all()
        )
        if not ok:
            raise SnapshotError("hyper-classes in the saved state contradict themselves; the file is damaged.")
