"""Similarities of centres that attend to a query, from kept products of what they are made of.

Such a centre is another one for every query, but its class's text and samples stay. This is the compiled path's way
while samples are few; on the plain path, and later on, the centres themselves are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosmic_tta.hyperclass import Attention, Centring, ClassMemory
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array

MOST_SAMPLES = 512  # with more of them, the product of the centres costs less
FIRST_ROOM = 64


class Atoms:
    """The texts that are nodes, then samples in order of arrival, and the products of all pairs."""

    def __init__(self, rule: Centring, memory: ClassMemory, texts: Array, products: Array) -> None:
        """Begin with the texts [t, D] and the lower triangle of their products [t, t]."""
        self.texts = texts
        self.used = len(texts)
        self.products = np.empty((len(texts) + FIRST_ROOM,) * 2, np.float32)
        self.products[: self.used, : self.used] = np.tril(products) + np.tril(products, -1).T
        self.places = np.full(memory.cache.sample.shape, -1, np.int32)  # [K, L]
        # A class's text lies in the direction of its node, to within rounding: so much of it.
        along = None if rule.text is None else np.einsum("kd,kd->k", rule.text, texts)
        self.shares = None if along is None else along / np.einsum("kd,kd->k", texts, texts)
        self.meet(memory, [(int(label), int(slot)) for label, slot in np.argwhere(memory.cache.filled())])

    def meet(self, memory: ClassMemory, slots: Iterable[tuple[int, int]]) -> None:
        """Take note of samples that are new in their slots, (class, slot)."""
        cache = memory.cache
        new = []
        for label, slot in slots:
            if self.places[label, slot] < 0:
                self.places[label, slot] = self.used
                self.used += 1
            new.append((label, slot))
        self.make_room(self.used)
        for label, slot in new:
            COMPILED.acquaint(self.texts, cache.slots, cache.count, self.places, label, slot, self.products)

    def make_room(self, atoms: int) -> None:
        """Have room for the products of so many, and for more to come."""
        if atoms > len(self.products):
            room = np.empty((2 * atoms - len(self.texts),) * 2, np.float32)
            room[: len(self.products), : len(self.products)] = self.products
            self.products = room

    def compose(self, memory: ClassMemory, attention: Attention, similarity: Array) -> None:
        """Bring the similarities of the centres up to date, in the lower triangle of those of all nodes."""
        COMPILED.compose(
            self.products, self.used, self.places, memory.cache.count, attention.weights, self.shares, similarity
        )
