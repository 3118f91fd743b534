"""Similarities of prototypes that attend to a query, from cached products of texts and samples.

Such a prototype differs for every query, but it is a weighted sum of its class's text and samples, which stay. The
compiled path uses this while samples are few. Later, and on the plain path, the prototypes themselves are multiplied;
`Similarity` in `similarity.py` is the definition. `add_row` and `fill_similarity` call kernel/cosmic/gram_cache.c.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.components.prototypes import PrototypeAttention, PrototypeConfig, PrototypeMemory

MAX_SAMPLES = 512  # with more samples, multiplying the prototypes costs less
INITIAL_ROOM = 64


class GramCache:
    """The products of all pairs of rows: the text nodes first, then the cached samples in order of arrival."""

    def __init__(self, config: PrototypeConfig, memory: PrototypeMemory, texts: Array, products: Array) -> None:
        """Begin with the text nodes [t, D] and the lower triangle of their products [t, t]."""
        self.texts = texts
        self.used = len(texts)
        self.products = np.empty((len(texts) + INITIAL_ROOM,) * 2, np.float32)
        self.products[: self.used, : self.used] = np.tril(products) + np.tril(products, -1).T
        self.row_of_slot = np.full(memory.cache.sample.shape, -1, np.int32)  # [K, L]
        # A class's text has the direction of its text node, to within rounding, and this length in units of it.
        along = None if config.text is None else np.einsum("kd,kd->k", config.text, texts)
        self.text_scales = None if along is None else along / np.einsum("kd,kd->k", texts, texts)
        self.sync(memory, [(int(label), int(slot)) for label, slot in np.argwhere(memory.cache.filled())])

    def sync(self, memory: PrototypeMemory, slots: Iterable[tuple[int, int]]) -> None:
        """Compute the products of samples that are new in their slots, (class, slot)."""
        changed = list(slots)
        for label, slot in changed:
            if self.row_of_slot[label, slot] < 0:
                self.row_of_slot[label, slot] = self.used
                self.used += 1
        self.make_room(self.used)
        for label, slot in changed:
            self.add_row(memory, label, slot)

    def add_row(self, memory: PrototypeMemory, label: int, slot: int) -> None:
        """Compute the products of one slot's sample with all rows."""
        cache = memory.cache
        COMPILED.gram_add_row(self.texts, cache.slots, cache.count, self.row_of_slot, label, slot, self.products)

    def make_room(self, rows: int) -> None:
        """Make room for so many rows, and for more to come."""
        if rows > len(self.products):
            room = np.empty((2 * rows - len(self.texts),) * 2, np.float32)
            room[: len(self.products), : len(self.products)] = self.products
            self.products = room

    def fill_similarity(self, memory: PrototypeMemory, attention: PrototypeAttention, similarity: Array) -> None:
        """Write the similarities of the prototypes into the lower triangle of those of all nodes, [n, n]."""
        COMPILED.gram_fill_similarity(
            self.products, self.used, self.row_of_slot, memory.cache.count, attention.weights, self.text_scales,
            similarity,
        )  # fmt: skip
