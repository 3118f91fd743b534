"""The nodes of a space's graph and their similarities, kept from one graph to the next."""

from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import Array, unit
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.components.prototypes import PrototypeAttention, PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic.graph.gram_cache import MAX_SAMPLES, GramCache
from cosmic_tta.methods.cosmic.graph.similarity import Similarity


class GraphNodes:
    """The nodes of a graph: the texts first, if they take part, then one visual node per class.

    Nothing here is learned. It follows from the memory, and is kept because little of it changes per graph.
    """

    def __init__(self, texts: Array | None, visual: Array, cosine: bool) -> None:
        self.rows = visual.copy() if texts is None else np.concatenate([texts, visual])  # [n, D]
        self.texts = 0 if texts is None else len(texts)
        self.cosine = cosine
        self.similarity = Similarity(unit(self.rows) if cosine else self.rows)
        self.changed: set[tuple[int, int]] = set()  # (class, slot) changed in the memory since; slot -1: no slot
        self.rows_current = True  # False: only the similarities are up to date
        self.gram_cache: GramCache | None = None
        self._slot_products: Array | None = None
        self._text_dots = np.empty((0, self.texts), np.float32)

    def slot_products(self, cache: ClassCache) -> Array:
        """Return a buffer for the products of all slots with a query, [K, L]; every step uses the same one."""
        if self._slot_products is None:
            self._slot_products = np.empty(cache.sample.shape, np.float32)
        return self._slot_products

    def text_dots(self, views: int) -> Array:
        """Return a buffer for the products of the views with the texts, [V, K]; every step uses the same one."""
        if len(self._text_dots) != views:
            self._text_dots = np.empty((views, self.texts), np.float32)
        return self._text_dots

    def update(self, config: PrototypeConfig, memory: PrototypeMemory, attention: PrototypeAttention | None) -> None:
        """Update the visual nodes and the similarities from the memory."""
        if attention is not None:
            self._update_attending(config, memory, attention)
        elif memory.nodes is not None:
            visual, features = self.rows[self.texts :], self.similarity.features[self.texts :]
            changed = np.zeros(len(self.rows), bool)
            for label, _ in self.changed:
                visual[label] = memory.nodes[label]
                if self.cosine:
                    features[label] = unit(visual[label])  # the bits of a fresh start
                changed[self.texts + label] = True
            self.similarity.update(changed)
        self.changed.clear()

    def sync_gram_cache(self, config: PrototypeConfig, memory: PrototypeMemory) -> GramCache:
        """Update the products of texts and samples; only where a similarity matrix is kept."""
        if self.gram_cache is None:
            matrix = self.similarity.kept
            assert matrix is not None
            texts = self.similarity.features[: self.texts]
            self.gram_cache = GramCache(config, memory, texts, matrix[: self.texts, : self.texts])
        else:
            self.gram_cache.sync(memory, self.changed)
        self.changed.clear()
        return self.gram_cache

    def _update_attending(
        self, config: PrototypeConfig, memory: PrototypeMemory, attention: PrototypeAttention
    ) -> None:
        """Update nodes that attend to the query: through the gram cache while samples are few, else by their rows."""
        count, similarity = memory.cache.count, self.similarity
        features, matrix = similarity.features, similarity.kept
        few = matrix is not None and count.sum() <= MAX_SAMPLES
        self.rows_current = self.cosine or not few
        if self.rows_current:
            visual = self.rows[self.texts :]
            memory.mix(config, attention.weights, visual)
            if self.cosine:
                np.copyto(features[self.texts :], visual, where=(count > 0)[:, None])
        if matrix is None or not few:
            self.gram_cache = None
            similarity.update(np.concatenate([np.zeros(self.texts, bool), count > 0]))
            return
        self.sync_gram_cache(config, memory).fill_similarity(memory, attention, matrix)
