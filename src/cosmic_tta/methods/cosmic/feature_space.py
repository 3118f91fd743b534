"""One feature space of COSMIC: its memory, the graph over its class prototypes, and the hyper-classes of that graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, dots
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.types import DERIVED
from cosmic_tta.methods.components.prototypes import PrototypeAttention, PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic.frozen_nodes import FrozenNodes, empty_nodes
from cosmic_tta.methods.cosmic.graph.similarity import is_kept
from cosmic_tta.methods.cosmic.graph_nodes import GraphNodes
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses
from cosmic_tta.methods.cosmic.lookahead import CachedLookups


class Rebuild(Enum):
    """When a learning step builds a new graph."""

    ALWAYS = "always"
    ON_CHANGE = "on change"  # if the cache takes the sample
    NEVER = "never"


class CacheCandidate(NamedTuple):
    """A sample for a class cache."""

    feature: Array
    label: int
    entropy: float
    sample: int  # its position in the stream


class PrototypeScores(NamedTuple):
    """The answer of a space's prototypes to a query."""

    cosine: Array  # [K]
    attention: PrototypeAttention | None  # of prototypes that attend to the query
    slot_products: Array | None  # [K, L] products of the slots with the query, where they were looked up


class SpaceConfig(NamedTuple):
    """What is fixed for a space."""

    prototypes: PrototypeConfig
    texts: Array | None  # [K, D] text nodes of the graph; None: the graph has visual nodes alone
    cosine: bool  # similarities of nodes are cosines; else dot products


@dataclass
class GraphSpace:
    """A memory, the hyper-classes of its last graph, and the nodes of that graph that have changed since."""

    memory: PrototypeMemory
    hyperclasses: HyperClasses
    frozen: FrozenNodes
    config: SpaceConfig = field(repr=False, compare=False, metadata=DERIVED)
    idle_nodes: list[GraphNodes] = field(default_factory=list, repr=False, compare=False, metadata=DERIVED)

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, config: SpaceConfig) -> GraphSpace:
        """Make a space that has seen nothing."""
        memory = PrototypeMemory.empty(classes, shots, dim, config.prototypes)
        slots = 0 if memory.gram is None else memory.gram.shape[1]
        space = cls(memory, HyperClasses.empty(), FrozenNodes.empty(dim, slots), config)
        space._prepare_nodes()
        return space

    @property
    def nodes(self) -> GraphNodes | None:
        """The graph's nodes as of the last update, where they are kept and not in use."""
        return self.idle_nodes[0] if self.idle_nodes else None

    def learn(self, lookups: CachedLookups, candidate: CacheCandidate, rebuild: Rebuild) -> bool:
        """Offer a sample to the memory; return whether the cache took it."""
        memory, (feature, label, entropy, sample) = self.memory, candidate
        if len(self.frozen.slot_weights) and memory.cache.count[label] == memory.cache.shots:
            self.frozen = self._frozen_rows()  # before a slot is overwritten that has a weight in them
        before = None if memory.nodes is None or rebuild is Rebuild.ALWAYS else memory.nodes[label].copy()
        slot = memory.learn(self.config.prototypes, label, feature, entropy, sample)
        if slot is None and self.config.prototypes.kind != "ema_all":
            return False
        if self.nodes is not None:
            self.nodes.changed.add((label, -1 if slot is None else slot))
        if slot is not None:
            lookups.update("slots", (label, slot), feature)
        if memory.nodes is not None:
            lookups.update("nodes", label, memory.nodes[label])
        graph_stays = rebuild is Rebuild.NEVER or slot is None
        if before is not None and graph_stays and len(self.hyperclasses):
            frozen = self.frozen.with_class(label, before)
            if frozen is not self.frozen:
                self.frozen = frozen
                lookups.invalidate("frozen")
        return slot is not None

    def query(self, lookups: CachedLookups, text_dots: Array | None, *, slots: bool = False) -> PrototypeScores:
        """Return the cosines of the prototypes with the query.

        Args:
            lookups: The query.
            text_dots: Its products with the unit class texts, [K], for prototypes with a text slot.
            slots: Whether the products of the slots are wanted too. Attention needs them in any case.
        """
        memory, nodes = self.memory, self.memory.nodes
        products = lookups.get("slots", memory.slot_dots) if slots or nodes is None else None
        if nodes is not None:
            return PrototypeScores(lookups.get("nodes", lambda queries: dots(nodes, queries)), None, products)
        assert products is not None  # because there are no nodes
        prototypes = self.config.prototypes
        attention = memory.attend(prototypes, products, None if prototypes.text is None else text_dots)
        return PrototypeScores(attention.cosine, attention, products)

    def similarity_to_frozen_nodes(self, lookups: CachedLookups, cosine: Array, *, learn: bool) -> Array:
        """Return the query's products with the nodes of the last graph, [n], given those with the current nodes."""
        frozen = self.frozen
        if len(frozen.slot_weights):
            frozen = self._frozen_rows()
            if learn:
                self.frozen = frozen
        if not len(frozen.classes):
            return cosine
        texts = len(cosine) - len(self.memory.cache.count)
        similarity = cosine.copy()
        similarity[texts + frozen.classes] = lookups.get("frozen", lambda queries: dots(frozen.rows, queries))
        return similarity

    def commit_graph(
        self, lookups: CachedLookups, hyperclasses: HyperClasses, nodes: GraphNodes,
        attention: PrototypeAttention | None,
    ) -> None:  # fmt: skip
        """Use the hyper-classes of a graph that was just built from these nodes."""
        lookups.invalidate("frozen")
        if attention is not None and nodes.rows_current:
            # Prototypes that attend to the query differ for the next one: all of them are frozen.
            self.hyperclasses = hyperclasses
            self.frozen = self.frozen.with_all(nodes.rows[nodes.texts :].copy())
        else:
            self.commit_hyperclasses(hyperclasses, None if attention is None else attention.weights)

    def commit_hyperclasses(self, hyperclasses: HyperClasses, slot_weights: Array | None) -> None:
        """Use hyper-classes whose nodes are the memory's, or its slots mixed by the weights [K, S]."""
        self.hyperclasses = hyperclasses
        if slot_weights is not None:
            self.frozen = self.frozen.with_weights(slot_weights)
        elif len(self.frozen.classes):
            self.frozen = self.frozen.cleared()

    def take_nodes(self, attention: PrototypeAttention | None) -> GraphNodes:
        """Take the graph's nodes out, up to date; `return_nodes` puts them back.

        Two peeks at a time must not share them: the second one finds none, and makes its own.
        """
        try:
            nodes = self.idle_nodes.pop()  # atomic between threads
        except IndexError:
            nodes = self._make_nodes()
        nodes.update(self.config.prototypes, self.memory, attention)
        return nodes

    def return_nodes(self, nodes: GraphNodes) -> None:
        """Put the graph's nodes back for the next graph."""
        self.idle_nodes = [nodes]

    def drop_nodes(self) -> None:
        """Forget the graph's nodes, because the memory was changed in another way than by `learn`."""
        self.idle_nodes = []

    def remapped(self, config: SpaceConfig, class_map: Ints) -> GraphSpace:
        """Return the space of other classes; `config` is theirs."""
        memory = self.memory.remapped(config.prototypes, self.config.prototypes, class_map)
        frozen = self.frozen.remapped(config.prototypes, memory, class_map)
        space = GraphSpace(memory, self.hyperclasses, frozen, config)
        if len(self.hyperclasses):
            space.hyperclasses = self._remapped_hyperclasses(space, class_map)
        return space

    def as_memory(self, name: str) -> FeatureMemory:
        """Return the cache under a name, with the cliques of the last graph."""
        cliques = self.hyperclasses
        return replace(self.memory.cache.as_memory(name), clique_nodes=cliques.nodes, clique_sizes=cliques.sizes)

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind."""
        self.frozen.check(len(self.memory.cache.count))

    def _frozen_rows(self) -> FrozenNodes:
        return self.frozen.as_rows(self.config.prototypes, self.memory)

    def _make_nodes(self) -> GraphNodes:
        memory, (prototypes, texts, cosine) = self.memory, self.config
        visual = empty_nodes(prototypes, memory) if memory.nodes is None else memory.nodes
        return GraphNodes(texts, visual, cosine)

    def _prepare_nodes(self) -> None:
        """Compute the similarities of the texts before the first sample, where similarities are kept."""
        texts, classes = self.config.texts, len(self.memory.cache.count)
        if is_kept(classes if texts is None else len(texts) + classes):
            nodes = self._make_nodes()
            nodes.similarity.update(np.ones(len(nodes.rows), bool))
            if self.config.prototypes.kind == "attention":
                nodes.sync_gram_cache(self.config.prototypes, self.memory)
            self.return_nodes(nodes)

    def _remapped_hyperclasses(self, space: GraphSpace, class_map: Ints) -> HyperClasses:
        """Return the hyper-classes of the last graph for the classes of another space."""
        old, new = len(self.memory.cache.count), len(class_map)
        texts, old_texts = space.config.texts, self.config.texts
        same_texts = texts is None or old_texts is None or np.array_equal(texts, old_texts)
        if old == new and np.array_equal(class_map, np.arange(old)) and same_texts:
            return self.hyperclasses
        kept = np.flatnonzero(class_map >= 0)
        frozen = space._frozen_rows()
        visual = frozen.rows
        if space.memory.nodes is not None:
            visual = space.memory.nodes.copy()
            visual[frozen.classes] = frozen.rows
        if texts is None or old_texts is None:
            new_node = np.full(old, -1, np.int64)
            new_node[class_map[kept]] = kept
            return self.hyperclasses.remapped(new_node, visual, np.zeros(new, bool), cosine=space.config.cosine)
        new_node = np.full(2 * old, -1, np.int64)
        new_node[class_map[kept]], new_node[old + class_map[kept]] = kept, new + kept
        changed = np.zeros(2 * new, bool)
        changed[kept] = (texts[kept] != old_texts[class_map[kept]]).any(axis=1)
        features = np.concatenate([texts, visual])
        return self.hyperclasses.remapped(new_node, features, changed, cosine=space.config.cosine)
