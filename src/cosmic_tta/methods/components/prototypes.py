"""Class prototypes (centres) from the slots of a cache: mean, attention or moving average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, affinity, as_float32, dots, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.components.class_cache import ClassCache

PrototypeKind = Literal["mean", "attention", "ema", "ema_all"]


class PrototypeConfig(NamedTuple):
    """How the centres of a space are computed.

    - `mean`: the mean of a class's filled slots.
    - `ema`: an exponential moving average of the samples that the cache took.
    - `ema_all`: the same over all samples of the pseudo-label.
    - `attention`: each slot is weighted by its affinity to the query, so every query has its own centres.
    """

    kind: PrototypeKind
    sharpness: float = 5.5  # of `attention`
    decay: float = 0.9  # of a moving average
    unit: bool = True  # centres have unit length; those of `attention` always do
    text: Array | None = None  # [K, D] counts as one more sample of its class


@dataclass
class PrototypeMemory:
    """A cache of one feature space, and what its class centres are computed from."""

    cache: ClassCache
    centres: Array | None  # [K, D] means or moving averages; a class without samples has a zero row
    nodes: Array | None  # [K, D] the centres with the texts, at unit length if configured
    gram: Array | None  # [K, S, S] `attention`: products of a class's slots, its text last; S is L or L + 1

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, config: PrototypeConfig) -> PrototypeMemory:
        """Make an empty memory."""
        cache = ClassCache.empty(classes, shots, dim)
        if config.kind == "attention":
            room = shots + (config.text is not None)
            gram = np.zeros((classes, room, room), np.float32)
            if config.text is not None:
                gram[:, -1, -1] = np.einsum("kd,kd->k", config.text, config.text)
            return cls(cache, None, None, gram)
        centres = np.zeros((classes, dim), np.float32)
        nodes = centres if config.text is None else config.text
        return cls(cache, centres, unit(nodes) if config.unit else nodes.copy(), None)

    def learn(self, config: PrototypeConfig, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Offer a sample to the cache, update its class, and return the slot it took, or None."""
        first = config.kind.startswith("ema") and self.cache.count[label] == 0
        slot = self._insert(config, label, feature, entropy, sample)
        if config.kind == "ema_all" or (config.kind == "ema" and slot is not None):
            old, decay = self.centres[label], np.float32(config.decay)  # type: ignore[index]
            self.centres[label] = feature if first else decay * old + (1 - decay) * feature  # type: ignore[index]
        if self.nodes is not None and (slot is not None or config.kind == "ema_all"):
            self._update_node(config, label)
        return slot

    def _insert(self, config: PrototypeConfig, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Offer a sample to the cache, and update the products or the mean of its class's slots.

        Compiled: kernel/cosmic/cache_insert.c.
        """
        cache, means = self.cache, self.centres if config.kind == "mean" else None
        if COMPILED is not None:
            taken: int = COMPILED.cache_insert(
                cache.slots, cache.entropy, cache.sample, cache.count, config.text, self.gram, means,
                feature, label, entropy, sample,
            )  # fmt: skip
            return None if taken < 0 else taken
        slot = cache.try_insert(label, feature, entropy, sample)
        if slot is not None and self.gram is not None:
            row = np.zeros(len(self.gram[label]), np.float32)
            row[: cache.shots] = dots(cache.slots[label], feature[None])[0]
            if config.text is not None:
                row[-1] = config.text[label] @ feature
            self.gram[label, slot] = self.gram[label, :, slot] = row
        if slot is not None and means is not None:
            means[label] = cache.slots[label, : cache.count[label]].mean(axis=0)
        return slot

    def _update_node(self, config: PrototypeConfig, label: int) -> None:
        """Compute the node of a class from its centre and text."""
        node = self.centres[label]  # type: ignore[index]
        if config.text is not None:
            count = np.float32(self.cache.count[label])
            node = (count * node + config.text[label]) / (count + 1)
        self.nodes[label] = unit(node) if config.unit else node  # type: ignore[index]

    def remapped(self, config: PrototypeConfig, before: PrototypeConfig, class_map: Ints) -> PrototypeMemory:
        """Return the memory of other classes; `config` has their texts, `before` the old ones."""
        memory = PrototypeMemory.empty(len(class_map), self.cache.shots, self.cache.slots.shape[2], config)
        memory.cache = self.cache.remapped(class_map)
        kept = np.flatnonzero(class_map >= 0)
        for new, old in ((memory.centres, self.centres), (memory.nodes, self.nodes), (memory.gram, self.gram)):
            if new is not None and old is not None:
                new[kept] = old[class_map[kept]]
        if config.text is not None and before.text is not None:
            for label in kept[(config.text[kept] != before.text[class_map[kept]]).any(axis=1)]:
                memory._update_text(config, int(label))
        return memory

    def _update_text(self, config: PrototypeConfig, label: int) -> None:
        """Update what depends on the text of a class, after it has changed."""
        assert config.text is not None  # only called with texts
        if self.gram is not None:
            row = np.zeros(self.gram.shape[1], np.float32)
            row[:-1] = dots(self.cache.slots[label], config.text[label][None])[0]
            row[-1] = config.text[label] @ config.text[label]
            self.gram[label, -1] = self.gram[label, :, -1] = row
        if self.nodes is not None:
            self._update_node(config, label)

    def slot_dots(self, queries: Array) -> Array:
        """Return the products of every slot with queries [b, D], [b, K, L]; 0 for empty slots.

        Compiled: kernel/cosmic/prototypes.c.
        """
        slots, cache = self.cache.slots, self.cache
        products = np.zeros((len(queries), *slots.shape[:2]), np.float32)
        if COMPILED is not None:
            COMPILED.slot_dots(slots, cache.count, queries, products)
        else:
            for query, product in zip(queries, products, strict=True):
                np.matmul(slots, query, out=product)
        return products

    def vote(self, slot_products: Array, sharpness: float) -> Array:
        """Return the sum of each class's affinities to a query, [K], given the products of the slots with it [K, L].

        Compiled: `slot_votes` in kernel/cosmic/prototypes.c.
        """
        if COMPILED is not None:
            votes = np.empty(len(slot_products), np.float32)
            COMPILED.slot_votes(slot_products, self.cache.count, sharpness, votes)
            return votes
        summed: Array = (affinity(slot_products, sharpness) * self.cache.filled()).sum(axis=1)
        return summed

    def attend(self, config: PrototypeConfig, slot_products: Array, text_dots: Array | None) -> PrototypeAttention:
        """Return the attention to a query, given the products of slots [K, L] and texts [K] with it.

        Compiled: kernel/cosmic/prototypes.c.
        """
        gram = self.gram
        assert gram is not None  # `attention` centres have one
        if COMPILED is not None:
            weights, cosine = np.empty(gram.shape[:2], np.float32), np.empty(len(slot_products), np.float32)
            COMPILED.attend(slot_products, text_dots, self.cache.count, gram, config.sharpness, weights, cosine)
            return PrototypeAttention(weights, cosine)
        weights = affinity(slot_products, config.sharpness) * self.cache.filled()
        if text_dots is not None:
            slot_products = np.concatenate([slot_products, text_dots[:, None]], axis=1)  # [K, S]
            weights = np.concatenate([weights, affinity(text_dots, config.sharpness)[:, None]], axis=1)
        # The centre is Σ φ·slot at unit length. Its cosine needs the slots' products with the query and each other.
        along = np.einsum("ks,ks->k", weights, slot_products)
        square = np.einsum("ks,ks->k", weights, np.matmul(gram, weights[:, :, None])[:, :, 0])
        return PrototypeAttention(weights, as_float32(along / np.sqrt(np.where(square > 0, square, 1))))

    def mix(self, config: PrototypeConfig, weights: Array, out: Array) -> None:
        """Write the unit centres of the classes that have samples, [K, D]; other rows are not written.

        Compiled: `mix_centres` in kernel/cosmic/prototypes.c.
        """
        cache = self.cache
        if COMPILED is not None:
            COMPILED.mix_centres(cache.slots, cache.count, weights, config.text, out)
            return
        some = cache.count > 0
        weights = weights[some]
        sums = np.matmul(weights[:, None, : cache.shots], cache.slots[some])[:, 0]
        out[some] = unit(sums if config.text is None else sums + weights[:, -1:] * config.text[some])


class PrototypeAttention(NamedTuple):
    """The weights of all slots for a query, and the cosines of the centres with it."""

    weights: Array  # [K, S]
    cosine: Array  # [K]; 0 for a class without a centre
