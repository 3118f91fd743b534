"""Centres of classes, hyper-classes over them, and the inlier nodes that the nearest ones select."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cosmic_tta.cache import ClassCache
from cosmic_tta.cliques import Cliques
from cosmic_tta.errors import SnapshotError
from cosmic_tta.explanation import HyperClass
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Bools, Ints, affinity, as_float32, dots, unit

CentreKind = Literal["mean", "attention", "ema", "ema_all"]
Rounding = Literal["floor", "ceil"]


class Centring(NamedTuple):
    """How the centres of a space are made.

    `mean`: the plain mean of a class's filled slots. `ema`: an exponential moving average of the samples
    that the cache took in; `ema_all`: of all samples of the pseudo-label, without selection by entropy.
    `attention`: each slot weighs by its affinity to the query, so there is a centre for every query.
    """

    kind: CentreKind
    sharpness: float = 5.5  # `attention`
    decay: float = 0.9  # of a moving average
    unit: bool = True  # `attention` centres always have unit length
    text: Array | None = None  # [K, D] takes part in its class as one sample more


@dataclass
class ClassMemory:
    """A cache of one feature space, and what it keeps ready to answer with class centres."""

    cache: ClassCache
    centres: Array | None  # [K, D] kept centres; a class without samples is a zero row
    nodes: Array | None  # [K, D] the same with the texts' part, at unit length if asked for
    gram: Array | None  # [K, S, S] `attention`: products of a class's slots, its text the last; S is L or L + 1

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, rule: Centring) -> ClassMemory:
        """Make a memory that has seen nothing."""
        cache = ClassCache.empty(classes, shots, dim)
        if rule.kind == "attention":
            room = shots + (rule.text is not None)
            gram = np.zeros((classes, room, room), np.float32)
            if rule.text is not None:
                gram[:, -1, -1] = np.einsum("kd,kd->k", rule.text, rule.text)
            return cls(cache, None, None, gram)
        centres = np.zeros((classes, dim), np.float32)
        nodes = centres if rule.text is None else rule.text
        return cls(cache, centres, unit(nodes) if rule.unit else nodes.copy(), None)

    def learn(self, rule: Centring, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Offer a sample to the cache, keep all else true, and return the slot it took, or None."""
        first = rule.kind.startswith("ema") and self.cache.count[label] == 0
        slot = self._take(rule, label, feature, entropy, sample)
        if rule.kind == "ema_all" or (rule.kind == "ema" and slot is not None):
            old, decay = self.centres[label], np.float32(rule.decay)  # type: ignore[index]
            self.centres[label] = feature if first else decay * old + (1 - decay) * feature  # type: ignore[index]
        if self.nodes is not None and (slot is not None or rule.kind == "ema_all"):
            self._place(rule, label)
        return slot

    def _take(self, rule: Centring, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Offer a sample to the cache; keep the products of its class's slots, or their mean, true."""
        cache, means = self.cache, self.centres if rule.kind == "mean" else None
        if COMPILED is not None:
            taken: int = COMPILED.learn(
                cache.slots, cache.entropy, cache.sample, cache.count, rule.text, self.gram, means,
                feature, label, entropy, sample,
            )  # fmt: skip
            return None if taken < 0 else taken
        slot = cache.offer(label, feature, entropy, sample)
        if slot is not None and self.gram is not None:
            row = np.zeros(len(self.gram[label]), np.float32)
            row[: cache.shots] = dots(cache.slots[label], feature[None])[0]
            if rule.text is not None:
                row[-1] = rule.text[label] @ feature
            self.gram[label, slot] = self.gram[label, :, slot] = row
        if slot is not None and means is not None:
            means[label] = cache.slots[label, : cache.count[label]].mean(axis=0)
        return slot

    def _place(self, rule: Centring, label: int) -> None:
        node = self.centres[label]  # type: ignore[index]
        if rule.text is not None:
            count = np.float32(self.cache.count[label])
            node = (count * node + rule.text[label]) / (count + 1)
        self.nodes[label] = unit(node) if rule.unit else node  # type: ignore[index]

    def carried(self, rule: Centring, before: Centring, places: Ints) -> ClassMemory:
        """Return the memory of other classes; `rule` has their texts, `before` those of the old ones."""
        memory = ClassMemory.empty(len(places), self.cache.shots, self.cache.slots.shape[2], rule)
        memory.cache = self.cache.carried(places)
        held = np.flatnonzero(places >= 0)
        for mine, its in ((memory.centres, self.centres), (memory.nodes, self.nodes), (memory.gram, self.gram)):
            if mine is not None and its is not None:
                mine[held] = its[places[held]]
        if rule.text is not None and before.text is not None:
            for label in held[(rule.text[held] != before.text[places[held]]).any(axis=1)]:
                memory._retold(rule, int(label))
        return memory

    def _retold(self, rule: Centring, label: int) -> None:
        """Keep true what a class's text has a part in, now that it is another."""
        assert rule.text is not None  # or nobody would ask
        if self.gram is not None:
            row = np.zeros(self.gram.shape[1], np.float32)
            row[:-1] = dots(self.cache.slots[label], rule.text[label][None])[0]
            row[-1] = rule.text[label] @ rule.text[label]
            self.gram[label, -1] = self.gram[label, :, -1] = row
        if self.nodes is not None:
            self._place(rule, label)

    def slot_dots(self, queries: Array) -> Array:
        """Return the products of every slot with queries [b, D], [b, K, L]; an empty slot's are 0."""
        slots, cache = self.cache.slots, self.cache
        products = np.zeros((len(queries), *slots.shape[:2]), np.float32)
        if COMPILED is not None:
            COMPILED.slot_dots(slots, cache.count, queries, products)
        else:
            for query, product in zip(queries, products, strict=True):
                np.matmul(slots, query, out=product)
        return products

    def vote(self, near: Array, sharpness: float) -> Array:
        """Return the sum of each class's affinities to a query, [K], given its products with the slots [K, L]."""
        if COMPILED is not None:
            votes = np.empty(len(near), np.float32)
            COMPILED.vote(near, self.cache.count, sharpness, votes)
            return votes
        summed: Array = (affinity(near, sharpness) * self.cache.filled()).sum(axis=1)
        return summed

    def attend(self, rule: Centring, near: Array, text_dots: Array | None) -> Attention:
        """Let the classes attend to a query, given its products with their slots [K, L] and texts [K]."""
        gram = self.gram
        assert gram is not None  # `attention` centres have one
        if COMPILED is not None:
            weights, cosine = np.empty(gram.shape[:2], np.float32), np.empty(len(near), np.float32)
            COMPILED.attend(near, text_dots, self.cache.count, gram, rule.sharpness, weights, cosine)
            return Attention(weights, cosine)
        weights = affinity(near, rule.sharpness) * self.cache.filled()
        if text_dots is not None:
            near = np.concatenate([near, text_dots[:, None]], axis=1)  # [K, S]
            weights = np.concatenate([weights, affinity(text_dots, rule.sharpness)[:, None]], axis=1)
        # The centre is Σ φ·slot at unit length: its cosine needs the slots' products with the query and each other.
        along = np.einsum("ks,ks->k", weights, near)
        square = np.einsum("ks,ks->k", weights, np.matmul(gram, weights[:, :, None])[:, :, 0])
        return Attention(weights, as_float32(along / np.sqrt(np.where(square > 0, square, 1))))

    def mix(self, rule: Centring, weights: Array, out: Array) -> None:
        """Write the unit centres of the classes that have samples, [K, D]; the other rows stay as they are."""
        cache = self.cache
        if COMPILED is not None:
            COMPILED.mix(cache.slots, cache.count, weights, rule.text, out)
            return
        some = cache.count > 0
        weights = weights[some]
        sums = np.matmul(weights[:, None, : cache.shots], cache.slots[some])[:, 0]
        out[some] = unit(sums if rule.text is None else sums + weights[:, -1:] * rule.text[some])


class Attention(NamedTuple):
    """How the classes' slots weigh for a query, and the cosines of their centres with it."""

    weights: Array  # [K, S]
    cosine: Array  # [K]; 0 where there is no centre


@dataclass(frozen=True)
class HyperClasses:
    """Cliques of a class graph: their nodes one clique after the other, their sizes, the scale of their anchors.

    A hyper-class is anchored at the sum of its nodes, scaled to their mean, or to unit length. Its affinity to a
    query is therefore the scaled sum of its nodes' products with it, and the anchor itself is never built.
    """

    nodes: Ints  # [sum of sizes]
    sizes: Ints  # [m]
    scale: Array  # [m]
    complete: bool = True  # whether these are all maximal cliques, or one a node because there were too many

    @classmethod
    def empty(cls) -> HyperClasses:
        """Make the hyper-classes of a graph that was never built."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))

    @classmethod
    def of(cls, cliques: Cliques, features: Array, *, cosine: bool) -> HyperClasses:
        """Anchor each clique at the mean of its nodes' features; at unit length for a true cosine."""
        nodes, sizes, shares, complete = cliques
        if not cosine:
            return cls(nodes, sizes, shares, complete)
        length = np.empty(len(sizes), np.float32)
        if COMPILED is not None:
            COMPILED.lengths(features, nodes, sizes, length)
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

    def nearest(self, then: Array, ratio: float, rounding: Rounding, score: Score | None = None) -> Nearest:
        """Select the share `ratio` of the hyper-classes nearest to a query, given its products with the nodes [n].

        Among equals the first in order goes in. A `score` rates the nodes that they have.
        """
        share = ratio * len(self)
        keep = max(1, math.ceil(share - 1e-9) if rounding == "ceil" else int(share))
        if COMPILED is not None:
            affinities, inliers = np.empty(len(self), np.float32), np.empty(len(then), bool)
            cosine, factor, sharpness = (None, 0.0, 0.0) if score is None else score
            scores = None if score is None else np.empty_like(then)
            COMPILED.select(
                then, self.nodes, self.sizes, self.scale, keep, affinities, inliers, cosine, factor, sharpness, scores
            )
            return Nearest(affinities, keep, inliers, scores)
        affinities = np.add.reduceat(then[self.nodes], np.cumsum(self.sizes) - self.sizes) * self.scale
        chosen = np.zeros(len(self), bool)
        chosen[np.argsort(-affinities, kind="stable")[:keep]] = True
        inliers = np.zeros(len(then), bool)
        inliers[self.nodes[np.repeat(chosen, self.sizes)]] = True
        if score is None:
            return Nearest(affinities, keep, inliers, None)
        return Nearest(
            affinities, keep, inliers, np.float32(score.factor) * affinity(score.cosine, score.sharpness) * inliers
        )

    def carried(self, nodes: Ints, features: Array, changed: Bools, *, cosine: bool) -> HyperClasses:
        """Return the hyper-classes of other nodes.

        `nodes` tells for each old node which one it is now, -1: none. A clique that lost a node and lies within
        another is gone; a new node stays alone. Anchors of cliques that lost a node, or have a `changed` one, are made
        anew from the features [n, D].
        """
        if not len(self):
            return self
        kept: dict[tuple[int, ...], np.float32 | None] = {}
        shrunk = set()
        for index in range(len(self)):
            members = nodes[self.members(index)]
            clique = tuple(sorted(members[members >= 0].tolist()))
            if len(clique) < len(members):
                shrunk.add(clique)
            same = len(clique) == len(members) and not changed[list(clique)].any()
            if clique:
                kept[clique] = self.scale[index] if same else kept.get(clique)
        around: dict[int, list[set[int]]] = {}
        for clique in kept:
            for node in clique:
                around.setdefault(node, []).append(set(clique))
        for clique in shrunk & kept.keys():
            if any(set(clique) < other for other in around[clique[0]]):
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

    def describe(self, nearest: Nearest, node_names: Sequence[str]) -> tuple[HyperClass, ...]:
        """Name the members of the selected hyper-classes, for people."""
        return tuple(
            HyperClass(tuple(node_names[node] for node in self.members(index)), float(nearest.affinities[index]))
            for index in nearest.selected().tolist()
        )

    def validate(self) -> None:
        """Refuse contents that no graph can give."""
        ok = (
            len(self.sizes) == len(self.scale)
            and (self.sizes > 0).all()
            and int(self.sizes.sum()) == len(self.nodes)
            and (self.nodes >= 0).all()
            and np.isfinite(self.scale).all()
        )
        if not ok:
            raise SnapshotError("hyper-classes in the saved state contradict themselves; the file is damaged.")


def _scale(features: Array, clique: tuple[int, ...], cosine: bool) -> np.float32:
    if not cosine:
        return np.float32(1) / np.float32(len(clique))
    length = np.float32(np.linalg.norm(features[list(clique)].sum(axis=0)))
    return np.float32(1) / length if length > 0 else np.float32(1)


class Score(NamedTuple):
    """How an inlier scores: factor·exp(-sharpness·(1 - cosine))."""

    cosine: Array  # [n] of the nodes with the query
    factor: float
    sharpness: float


class Nearest(NamedTuple):
    """Hyper-classes by their affinity to a query: the first `keep` are selected, and their nodes are inliers."""

    affinities: Array  # [m]
    keep: int
    inliers: Bools  # [n]
    scores: Array | None  # [n] of inliers, where they were asked for; 0 of the others

    @classmethod
    def read(cls, affinities: bytes, keep: int, inliers: bytes) -> Nearest:
        """Read what the kernel selected."""
        return cls(np.frombuffer(affinities, np.float32), keep, np.frombuffer(inliers, bool), None)

    def selected(self) -> Ints:
        """Return the selected hyper-classes, the nearest first."""
        order: Ints = np.argsort(-self.affinities, kind="stable")[: self.keep]
        return order
