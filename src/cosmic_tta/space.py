"""One feature space of COSMIC: its memory, the graph over its class centres, and the hyper-classes of that graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cosmic_tta.ahead import Queries
from cosmic_tta.core import DERIVED
from cosmic_tta.errors import SnapshotError
from cosmic_tta.hyperclass import Attention, Centring, ClassMemory, HyperClasses
from cosmic_tta.ops import Array, Ints, dots, unit
from cosmic_tta.similarity import Similarity


class Answer(NamedTuple):
    """What the class centres of a space say to a query."""

    cosine: Array  # [K]
    attention: Attention | None  # where the centres attend to the query


class Nodes:
    """The nodes of a space's graph, the texts first if they take part, and their similarities.

    Nothing here was learned: it follows from the memory, and is kept from one graph to the next because little
    of it changes.
    """

    def __init__(self, texts: Array | None, visual: Array, cosine: bool) -> None:
        self.rows = visual.copy() if texts is None else np.concatenate([texts, visual])  # [n, D]
        self.texts = 0 if texts is None else len(texts)
        self.cosine = cosine
        self.similarity = Similarity(unit(self.rows) if cosine else self.rows)
        self.stale: set[int] = set()  # classes whose node changed in the memory

    def update(self, rule: Centring, memory: ClassMemory, attention: Attention | None) -> None:
        """Bring the visual nodes and the similarities up to date."""
        visual, features = self.rows[self.texts :], self.similarity.features[self.texts :]
        changed = np.zeros(len(self.rows), bool)
        if attention is not None:
            some = changed[self.texts :] = memory.cache.count > 0
            memory.mix(rule, attention, visual)
            if self.cosine:
                np.copyto(features, visual, where=some[:, None])
        elif memory.nodes is not None:
            for label in self.stale:
                visual[label] = memory.nodes[label]
                if self.cosine:
                    features[label] = unit(visual[label])  # as if made at once
                changed[self.texts + label] = True
        self.similarity.refresh(changed)
        self.stale.clear()


@dataclass
class Space:
    """A memory, the hyper-classes of its last graph, and the nodes that have changed since."""

    memory: ClassMemory
    hyper: HyperClasses
    moved: Ints  # [j] classes
    was: Array  # [j, D] their visual nodes in that graph
    rule: Centring = field(repr=False, compare=False, metadata=DERIVED)
    nodes: Nodes | None = field(default=None, repr=False, compare=False, metadata=DERIVED)

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, rule: Centring) -> Space:
        """Make a space that has seen nothing."""
        memory = ClassMemory.empty(classes, shots, dim, rule)
        return cls(memory, HyperClasses.empty(), np.zeros(0, np.int64), np.zeros((0, dim), np.float32), rule)

    def learn(
        self, queries: Queries, label: int, feature: Array, entropy: float, sample: int, due: bool | None
    ) -> bool:
        """Let the memory take a sample in, and say whether it did.

        `due` says whether a new graph follows at once; None: if the memory takes the sample.
        """
        memory, rule = self.memory, self.rule
        before = None if memory.nodes is None else memory.nodes[label].copy()
        slot = memory.learn(rule, label, feature, entropy, sample)
        if slot is not None:
            queries.patch("slots", (label, slot), feature)
        if before is not None and (slot is not None or rule.kind == "ema_all"):
            queries.patch("nodes", label, memory.nodes[label])  # type: ignore[index]
            if self.nodes is not None:
                self.nodes.stale.add(label)
            stays = due is False or (due is None and slot is None)  # the graph of before
            if stays and len(self.hyper) and label not in self.moved:
                self.moved = np.append(self.moved, label)
                self.was = np.concatenate([self.was, before[None]])
                queries.forget("was")
        return slot is not None

    def answer(self, queries: Queries, text_dots: Array) -> Answer:
        """Return the cosines of the visual nodes with the query; `text_dots` [K] are those of the texts with it."""
        memory, nodes = self.memory, self.memory.nodes
        if nodes is not None:
            return Answer(queries.look("nodes", lambda rows: dots(nodes, rows)), None)
        near = queries.look("slots", memory.slot_dots)
        attention = memory.attend(self.rule, near, None if self.rule.text is None else text_dots)
        return Answer(attention.cosine, attention)

    def as_it_was(self, queries: Queries, cosine: Array) -> Array:
        """Return the products of the query with the nodes as they were in the last graph, given those of today, [n]."""
        if not len(self.moved):
            return cosine
        visual = len(self.memory.cache.count)
        then = cosine.copy()
        then[len(cosine) - visual + self.moved] = queries.look("was", lambda rows: dots(self.was, rows))
        return then

    def current(self, texts: Array | None, cosine: bool, attention: Attention | None) -> Nodes:
        """Take the graph's nodes out, up to date; whoever took them puts them back.

        They are out so that two peeks at a time do not share them: the second finds none, and makes its own.
        """
        memory, rule = self.memory, self.rule
        nodes: Nodes | None = vars(self).pop("nodes", None)  # in one go, for threads
        if nodes is None:
            blank = np.zeros_like(memory.cache.slots[:, 0]) if rule.text is None else rule.text
            nodes = Nodes(texts, blank if memory.nodes is None else memory.nodes, cosine)
        nodes.update(rule, memory, attention)
        return nodes

    def validate(self) -> None:
        """Refuse nodes of before that cannot be."""
        classes = len(self.memory.cache.count)
        sound = len(self.moved) == len(self.was) == len(np.unique(self.moved))
        if not sound or ((self.moved < 0) | (self.moved >= classes)).any():
            raise SnapshotError("a saved state has moved nodes that are none; the file is damaged.")

    def settle(self, queries: Queries, hyper: HyperClasses, nodes: Nodes, attention: Attention | None) -> None:
        """Use the hyper-classes of a graph that was just built."""
        self.hyper = hyper
        visual = nodes.rows[nodes.texts :]
        moved = 0 if attention is None else len(visual)  # centres that attend to the query are others for the next one
        if len(self.moved) != moved:
            self.moved, self.was = np.arange(moved), visual[:moved].copy()
        elif moved:
            np.copyto(self.was, visual)
        queries.forget("was")
