"""The visual nodes of a space as they were in its last graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory


@dataclass(frozen=True, eq=False)
class FrozenNodes:
    """The visual nodes of the last graph, for the classes whose node has changed since.

    Prototypes that attend to the query differ for every query, so all classes are listed. They may be stored as the
    weights of their slots, and mixed into rows only when they are needed.
    """

    classes: Ints  # [j] distinct classes
    rows: Array  # [j, D] their nodes in the last graph
    slot_weights: Array  # [K, S] weights of all nodes, which then have no rows; [0, S] otherwise

    @classmethod
    def empty(cls, dim: int, slots: int) -> FrozenNodes:
        """Make the value of a graph whose nodes are those of the memory."""
        return cls(np.zeros(0, np.int64), np.zeros((0, dim), np.float32), np.zeros((0, slots), np.float32))

    def cleared(self) -> FrozenNodes:
        """Return a value without nodes."""
        return FrozenNodes(self.classes[:0].copy(), self.rows[:0].copy(), self.slot_weights[:0].copy())

    def with_class(self, label: int, row: Array) -> FrozenNodes:
        """Return a value that also lists one class, unless it is listed already."""
        if label in self.classes:
            return self
        return FrozenNodes(np.append(self.classes, label), np.concatenate([self.rows, row[None]]), self.slot_weights)

    def with_all(self, rows: Array) -> FrozenNodes:
        """Return a value that lists every class, by rows [K, D]."""
        return FrozenNodes(np.arange(len(rows)), rows, self.slot_weights[:0].copy())

    def with_weights(self, slot_weights: Array) -> FrozenNodes:
        """Return a value that lists every class, by the weights of its slots [K, S]."""
        none = self.cleared() if len(self.classes) else self
        return FrozenNodes(none.classes, none.rows, slot_weights)

    def as_rows(self, config: PrototypeConfig, memory: PrototypeMemory) -> FrozenNodes:
        """Return the same nodes as rows. A slot that was filled after the graph has the weight 0."""
        if not len(self.slot_weights):
            return self
        nodes = empty_nodes(config, memory)
        memory.mix(config, self.slot_weights, nodes)
        return self.with_all(nodes)

    def remapped(self, config: PrototypeConfig, memory: PrototypeMemory, class_map: Ints) -> FrozenNodes:
        """Return the nodes of other classes. `memory` and `config` are those of the new classes."""
        new = class_map < 0
        if len(self.slot_weights):
            weights = take_classes(self.slot_weights, class_map)
            if config.text is not None:
                weights[new, -1] = 1
            return self.with_weights(weights)
        if config.kind == "attention" and len(self.rows):  # all classes are listed
            rows = np.where(new[:, None], empty_nodes(config, memory), take_classes(self.rows, class_map))
            return self.with_all(rows)
        new_class = np.full(int(max(class_map.max(initial=-1), self.classes.max(initial=-1))) + 1, -1, np.int64)
        new_class[class_map[~new]] = np.flatnonzero(~new)
        kept = new_class[self.classes] >= 0
        return FrozenNodes(new_class[self.classes][kept], self.rows[kept].copy(), self.slot_weights[:0].copy())

    def check(self, classes: int) -> None:
        """Refuse contents that a space of so many classes cannot have."""
        distinct = len(self.classes) == len(self.rows) == len(np.unique(self.classes))
        known = ((self.classes >= 0) & (self.classes < classes)).all()
        weighted = len(self.slot_weights) in (0, classes) and (self.slot_weights >= 0).all()
        if not (distinct and known and weighted):
            raise SnapshotError("the saved nodes of the last graph are not nodes of this space; the file is damaged.")


def empty_nodes(config: PrototypeConfig, memory: PrototypeMemory) -> Array:
    """Return the nodes of classes without samples, [K, D]: their texts if these are slots, else zero rows."""
    return np.zeros_like(memory.cache.slots[:, 0]) if config.text is None else config.text.copy()
