"""What a method holds of each class, seen from outside: how many samples, in how many places, with which features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.cache import ClassCache
from cosmic_tta.core import State
from cosmic_tta.hyperclass import ClassMemory
from cosmic_tta.means import BLOCK, BayesMeansState
from cosmic_tta.ops import Array, Ints
from cosmic_tta.space import Space


class Holding(NamedTuple):
    """One memory: rows of features, and the class and sample of each."""

    name: str
    room: int  # places of a class
    rows: Array  # [n, D]
    label: Ints  # [n] the class that a row stands for
    sample: Ints | None  # [n] which sample of the stream it is, where that is known

    def of(self, label: int) -> Array:
        """Return the rows of a class."""
        rows: Array = self.rows[self.label == label]
        return rows


def holdings(state: State) -> list[Holding]:
    """Return the memories of a state, the first the one that is shown."""
    if isinstance(state, BayesMeansState):
        return list(_ring(state))
    found = []
    for name, value in vars(state).items():
        cache = _cache(value)
        if cache is not None:
            label, slot = np.nonzero(cache.filled())
            found.append(Holding(name, cache.shots, cache.slots[label, slot], label, cache.sample[label, slot]))
    return found


def _cache(value: Any) -> ClassCache | None:
    if isinstance(value, Space):
        value = value.memory
    if isinstance(value, ClassMemory):
        value = value.cache
    return value if isinstance(value, ClassCache) else None


def _ring(state: BayesMeansState) -> Iterator[Holding]:
    """The ring of kept samples; each counts to the class that has most of it."""
    blocks = -(-state.held // BLOCK)
    label = state.label[:blocks].argmax(axis=1).reshape(-1)[: state.held]  # [M / 16, K, 16] → [held]
    room = max(1, len(state.prior) // state.task.classes)
    for name in ("clip", "aux"):
        space = getattr(state, name)
        if space is not None:
            yield Holding(name, room, space.kept[: state.held], label, None)
