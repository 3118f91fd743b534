"""A block of samples that are known beforehand, looked up together.

One pass over a memory serves the whole block, which is what a pass costs; where the memory changes on the way, what
changed is looked up again. The answers have the bits of one query at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cosmic_tta.core import Sample, Task
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, dots

LOOK_AHEAD = 48  # samples of a block that are looked up together

Look = Callable[[Array], Array]  # queries [b, D] → something for each, [b, ...]


class Queries:
    """Queries [b, D] and, by name, what was looked up for those still to come."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.at = 0  # the query whose turn it is
        self._known: dict[str, tuple[int, Array]] = {}  # from which query on, and what
        self._unsteady: set[str] = set()  # known once, then forgotten: not worth a block until asked for twice

    def look(self, name: str, look: Look) -> Array:
        """Return what `look` gives for the query whose turn it is; it may be changed only through `patch`."""
        known = self._known.get(name)
        if known is None:
            alone = COMPILED is None or name in self._unsteady or self.at + 1 == len(self.rows)
            self._unsteady.discard(name)
            if alone:
                only: Array = look(self.rows[self.at : self.at + 1])[0]
                return only
            known = self._known[name] = (self.at, look(self.rows[self.at :]))
        value: Array = known[1][self.at - known[0]]
        return value

    def patch(self, name: str, place: int | tuple[int, int], row: Array) -> None:
        """Take note that a row of what was looked up in is another now."""
        if name in self._known:
            start, values = self._known[name]
            to_come = slice(self.at - start, None)
            values[(to_come, *np.atleast_1d(place))] = dots(row[None], self.rows[self.at :])[:, 0]

    def forget(self, name: str) -> None:
        """Take note that all of what was looked up in is another now."""
        self._known.pop(name, None)
        self._unsteady.add(name)


class Ahead:
    """Samples that are known beforehand: what can be looked up for all of them at once."""

    def __init__(self, task: Task, samples: Sequence[Sample]) -> None:
        self._samples = samples
        if len(samples) == 1:
            clip, aux = samples[0].clip, samples[0].aux
            self.clip = Queries(clip[:1])
            self.aux = None if aux is None else Queries(aux[None])
        else:
            clip = np.concatenate([sample.clip for sample in samples])
            self.clip = Queries(np.stack([sample.plain for sample in samples]))
            looks = [sample.aux for sample in samples if sample.aux is not None]
            self.aux = Queries(np.stack(looks)) if looks else None
        # The views of a block lie one after the other: [sum of V, K] with the texts.
        self.products = dots(task.unit_text, clip)

    def __iter__(self) -> Iterator[tuple[Sample, Array]]:
        """Yield sample after sample with the products of its views and the texts, [V, K]."""
        end = 0
        for at, sample in enumerate(self._samples):
            self.clip.at = at
            if self.aux is not None:
                self.aux.at = at
            start, end = end, end + len(sample.clip)
            yield sample, self.products[start:end]
