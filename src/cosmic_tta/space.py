"""One feature space of COSMIC: its memory, the graph over its class centres, and the hyper-classes of that graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cosmic_tta.ahead import Queries
from cosmic_tta.atoms import MOST_SAMPLES, Atoms
from cosmic_tta.cache import ClassCache
from cosmic_tta.core import DERIVED
from cosmic_tta.errors import SnapshotError
from cosmic_tta.hyperclass import Attention, Centring, ClassMemory, HyperClasses
from cosmic_tta.ops import Array, Ints, by_place, dots, unit
from cosmic_tta.similarity import Similarity, is_kept


class Offer(NamedTuple):
    """A sample for a class, how sure it is, and its number in the stream."""

    feature: Array
    label: int
    entropy: float
    sample: int


class Answer(NamedTuple):
    """What the class centres of a space say to a query."""

    cosine: Array  # [K]
    attention: Attention | None  # where the centres attend to the query
    near: Array | None  # [K, L] products of the slots with the query, where they were looked up


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
        self.stale: set[tuple[int, int]] = set()  # classes whose node changed in the memory, and the slot; -1: none
        self.written = True  # whether the rows are up to date, or only the similarities
        self.atoms: Atoms | None = None
        self._near: Array | None = None
        self._text_dots = np.empty((0, self.texts), np.float32)

    def near(self, cache: ClassCache) -> Array:
        """Return room for a query's products with the slots [K, L], the same in every step."""
        if self._near is None:
            self._near = np.empty(cache.sample.shape, np.float32)
        return self._near

    def text_dots(self, views: int) -> Array:
        """Return room for the products of so many views with the texts [V, K], the same in every step."""
        if len(self._text_dots) != views:
            self._text_dots = np.empty((views, self.texts), np.float32)
        return self._text_dots

    def update(self, rule: Centring, memory: ClassMemory, attention: Attention | None) -> None:
        """Bring the visual nodes and the similarities up to date."""
        if attention is not None:
            self._attend(rule, memory, attention)
        elif memory.nodes is not None:
            visual, features = self.rows[self.texts :], self.similarity.features[self.texts :]
            changed = np.zeros(len(self.rows), bool)
            for label, _ in self.stale:
                visual[label] = memory.nodes[label]
                if self.cosine:
                    features[label] = unit(visual[label])  # as if made at once
                changed[self.texts + label] = True
            self.similarity.refresh(changed)
        self.stale.clear()

    def meet(self, rule: Centring, memory: ClassMemory) -> Atoms:
        """Bring the products of texts and samples up to date, where a matrix is kept."""
        if self.atoms is None:
            matrix = self.similarity.kept
            assert matrix is not None
            texts = self.similarity.features[: self.texts]
            self.atoms = Atoms(rule, memory, texts, matrix[: self.texts, : self.texts])
        else:
            self.atoms.meet(memory, self.stale)
        self.stale.clear()
        return self.atoms

    def _attend(self, rule: Centring, memory: ClassMemory, attention: Attention) -> None:
        count, similarity = memory.cache.count, self.similarity
        features, matrix = similarity.features, similarity.kept
        few = matrix is not None and count.sum() <= MOST_SAMPLES
        self.written = self.cosine or not few
        if self.written:
            visual = self.rows[self.texts :]
            memory.mix(rule, attention.weights, visual)
            if self.cosine:
                np.copyto(features[self.texts :], visual, where=(count > 0)[:, None])
        if matrix is None or not few:
            self.atoms = None
            similarity.refresh(np.concatenate([np.zeros(self.texts, bool), count > 0]))
            return
        self.meet(rule, memory).compose(memory, attention, matrix)


@dataclass
class Space:
    """A memory, the hyper-classes of its last graph, and the nodes that have changed since."""

    memory: ClassMemory
    hyper: HyperClasses
    moved: Ints  # [j] classes
    was: Array  # [j, D] their visual nodes in that graph
    mixed: Array  # [K, S] or [0, S]: how the slots weighed in all those nodes, if these are not written into `was` yet
    rule: Centring = field(repr=False, compare=False, metadata=DERIVED)
    nodes: Nodes | None = field(default=None, repr=False, compare=False, metadata=DERIVED)

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int, rule: Centring) -> Space:
        """Make a space that has seen nothing."""
        memory = ClassMemory.empty(classes, shots, dim, rule)
        slots = 0 if memory.gram is None else memory.gram.shape[1]
        none, weights = np.zeros((0, dim), np.float32), np.zeros((0, slots), np.float32)
        return cls(memory, HyperClasses.empty(), np.zeros(0, np.int64), none, weights, rule)

    def learn(self, queries: Queries, offer: Offer, due: bool | None) -> bool:
        """Let the memory take a sample in, and say whether it did.

        `due` says whether a new graph follows at once; None: if the memory takes the sample.
        """
        memory, rule, (feature, label, entropy, sample) = self.memory, self.rule, offer
        if len(self.mixed) and memory.cache.count[label] == memory.cache.shots:
            self._write()  # before a slot is overwritten that has a part in it
        before = None if memory.nodes is None or due else memory.nodes[label].copy()
        slot = memory.learn(rule, label, feature, entropy, sample)
        if slot is None and rule.kind != "ema_all":
            return False
        if self.nodes is not None:
            self.nodes.stale.add((label, -1 if slot is None else slot))
        if slot is not None:
            queries.patch("slots", (label, slot), feature)
        if memory.nodes is not None:
            queries.patch("nodes", label, memory.nodes[label])
        if before is not None:
            stays = due is False or slot is None  # the graph of before
            if stays and len(self.hyper) and label not in self.moved:
                self.moved = np.append(self.moved, label)
                self.was = np.concatenate([self.was, before[None]])
                queries.forget("was")
        return slot is not None

    def answer(self, queries: Queries, text_dots: Array | None, *, slots: bool = False) -> Answer:
        """Return the cosines of the visual nodes with the query; `text_dots` [K] are those of the texts with it.

        Centres that attend need the products of the slots; `slots` asks for them in any case.
        """
        memory, nodes = self.memory, self.memory.nodes
        near = queries.look("slots", memory.slot_dots) if slots or nodes is None else None
        if nodes is not None:
            return Answer(queries.look("nodes", lambda rows: dots(nodes, rows)), None, near)
        assert near is not None  # because there are no nodes
        attention = memory.attend(self.rule, near, None if self.rule.text is None else text_dots)
        return Answer(attention.cosine, attention, near)

    def as_it_was(self, queries: Queries, cosine: Array, learn: bool) -> Array:
        """Return the products of the query with the nodes as they were in the last graph, given those of today, [n]."""
        moved, was = self.moved, self.was
        if len(self.mixed):
            moved, was = self._write() if learn else self._nodes_then()
        if not len(moved):
            return cosine
        visual = len(self.memory.cache.count)
        then = cosine.copy()
        then[len(cosine) - visual + moved] = queries.look("was", lambda rows: dots(was, rows))
        return then

    def _nodes_then(self) -> tuple[Ints, Array]:
        """Mix the nodes of the last graph, whose weights are kept; a slot filled since then has none."""
        cache, text = self.memory.cache, self.rule.text
        nodes = np.zeros((len(cache.count), cache.slots.shape[2]), np.float32) if text is None else text.copy()
        self.memory.mix(self.rule, self.mixed, nodes)
        return np.arange(len(nodes)), nodes

    def _write(self) -> tuple[Ints, Array]:
        self.moved, self.was = self._nodes_then()
        self.mixed = self.mixed[:0]
        return self.moved, self.was

    def current(self, texts: Array | None, cosine: bool, attention: Attention | None) -> Nodes:
        """Take the graph's nodes out, up to date; whoever took them puts them back.

        They are out so that two peeks at a time do not share them: the second finds none, and makes its own.
        """
        memory, rule = self.memory, self.rule
        nodes: Nodes | None = vars(self).pop("nodes", None)  # in one go, for threads
        if nodes is None:
            nodes = self._make_nodes(texts, cosine)
        nodes.update(rule, memory, attention)
        return nodes

    def _make_nodes(self, texts: Array | None, cosine: bool) -> Nodes:
        memory, text = self.memory, self.rule.text
        if memory.nodes is not None:
            return Nodes(texts, memory.nodes, cosine)
        return Nodes(texts, np.zeros_like(memory.cache.slots[:, 0]) if text is None else text, cosine)

    def prepare(self, texts: Array | None, cosine: bool) -> None:
        """Make the nodes before the first sample comes, with what the texts alone tell, where similarities are kept."""
        classes = len(self.memory.cache.count)
        if is_kept(classes if texts is None else len(texts) + classes):
            nodes = self._make_nodes(texts, cosine)
            nodes.similarity.refresh(np.ones(len(nodes.rows), bool))
            if self.rule.kind == "attention":
                nodes.meet(self.rule, self.memory)
            self.nodes = nodes

    def carried(self, rule: Centring, places: Ints, texts: Array | None, before: Array | None, cosine: bool) -> Space:
        """Return the space of other classes; `texts` [K, D] are their nodes in the graph, `before` the old ones'."""
        old, new = len(self.memory.cache.count), len(places)
        memory = self.memory.carried(rule, self.rule, places)
        space = Space(memory, self.hyper, self.moved[:0].copy(), self.was[:0].copy(), self.mixed[:0].copy(), rule)
        empty = np.zeros_like(memory.cache.slots[:, 0]) if rule.text is None else rule.text
        if len(self.mixed):
            space.mixed = by_place(self.mixed, places)
            if rule.text is not None:
                space.mixed[places < 0, -1] = 1
        elif rule.kind == "attention" and len(self.was):  # all of them: see `settle`
            space.moved, space.was = np.arange(new), np.where((places < 0)[:, None], empty, by_place(self.was, places))
        elif len(self.was):
            at = np.full(old, -1, np.int64)
            at[places[places >= 0]] = np.flatnonzero(places >= 0)
            stays = at[self.moved] >= 0
            space.moved, space.was = at[self.moved][stays], self.was[stays].copy()
        if len(self.hyper):
            space.hyper = self._carried_hyper(space, places, texts, before, cosine)
        return space

    def _carried_hyper(
        self, space: Space, places: Ints, texts: Array | None, before: Array | None, cosine: bool
    ) -> HyperClasses:
        """Return the hyper-classes of the last graph, for another space's classes."""
        old, new = len(self.memory.cache.count), len(places)
        held = np.flatnonzero(places >= 0)
        if (
            old == new
            and np.array_equal(places, np.arange(old))
            and (texts is None or before is None or np.array_equal(texts, before))
        ):
            return self.hyper
        if space.memory.nodes is None:
            visual = space._nodes_then()[1] if len(space.mixed) else space.was
        else:
            visual = space.memory.nodes.copy()
            visual[space.moved] = space.was
        if texts is None or before is None:
            nodes, features, changed = np.full(old, -1, np.int64), visual, np.zeros(new, bool)
            nodes[places[held]] = held
            return self.hyper.carried(nodes, features, changed, cosine=cosine)
        nodes = np.full(2 * old, -1, np.int64)
        nodes[places[held]], nodes[old + places[held]] = held, new + held
        changed = np.zeros(2 * new, bool)
        changed[held] = (texts[held] != before[places[held]]).any(axis=1)
        return self.hyper.carried(nodes, np.concatenate([texts, visual]), changed, cosine=cosine)

    def validate(self) -> None:
        """Refuse nodes of before that cannot be."""
        self.nodes = None  # those of an empty memory
        classes = len(self.memory.cache.count)
        sound = len(self.moved) == len(self.was) == len(np.unique(self.moved)) and len(self.mixed) in (0, classes)
        if not sound or ((self.moved < 0) | (self.moved >= classes)).any() or (self.mixed < 0).any():
            raise SnapshotError("a saved state has moved nodes that are none; the file is damaged.")

    def settle(self, queries: Queries, hyper: HyperClasses, nodes: Nodes, attention: Attention | None) -> None:
        """Use the hyper-classes of a graph that was just built."""
        queries.forget("was")
        if attention is None or not nodes.written:
            self.settle_on(hyper, None if attention is None else attention.weights)
            return
        # Centres that attend to the query are others for the next one: all have moved.
        self.hyper, self.mixed, visual = hyper, self.mixed[:0], nodes.rows[nodes.texts :]
        if len(self.was):
            np.copyto(self.was, visual)
        else:
            self.moved, self.was = np.arange(len(visual)), visual.copy()

    def settle_on(self, hyper: HyperClasses, weights: Array | None) -> None:
        """Use the hyper-classes of a graph whose nodes stand in the memory, or can be mixed from it by the weights."""
        self.hyper = hyper
        if len(self.moved):
            self.moved, self.was = self.moved[:0].copy(), self.was[:0].copy()
        if weights is not None:
            self.mixed = weights
