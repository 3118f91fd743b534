"""Lookups for a block of samples that are known in advance.

Most of the cost of a lookup is one pass over the memory. One pass serves the whole block; where the memory changes
within the block, the changed part is looked up again. The results are bit-equal to one lookup per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cosmic_tta.core.arrays import Array, dots
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.types import Sample, Task

BLOCK_SIZE = 48  # samples of a block that are looked up together

Lookup = Callable[[Array], Array]  # queries [b, D] → one result per query, [b, ...]


class CachedLookups:
    """Queries [b, D] and, by name, the results for the queries that are still to come."""

    def __init__(self, queries: Array) -> None:
        self.queries = queries
        self.position = 0  # of the current query
        self._known: dict[str, tuple[int, Array]] = {}  # position of the first result, and the results
        self._invalidated: set[str] = set()  # names whose next lookup is for the current query alone

    def get(self, name: str, lookup: Lookup) -> Array:
        """Return the result of `lookup` for the current query. Do not write to it; see `update`."""
        only: Array
        if len(self.queries) == 1:
            only = lookup(self.queries)[0]
            return only
        known = self._known.get(name)
        if known is None:
            alone = COMPILED is None or name in self._invalidated or self.position + 1 == len(self.queries)
            self._invalidated.discard(name)
            if alone:
                only = lookup(self.queries[self.position : self.position + 1])[0]
                return only
            known = self._known[name] = (self.position, lookup(self.queries[self.position :]))
        value: Array = known[1][self.position - known[0]]
        return value

    def update(self, name: str, index: int | tuple[int, int], row: Array) -> None:
        """Recompute one entry of the results, because the row behind it has changed."""
        if name in self._known:
            start, values = self._known[name]
            to_come = slice(self.position - start, None)
            values[(to_come, *np.atleast_1d(index))] = dots(row[None], self.queries[self.position :])[:, 0]

    def invalidate(self, name: str) -> None:
        """Drop the results of a name, because everything behind them has changed."""
        self._known.pop(name, None)
        self._invalidated.add(name)


class BlockLookahead:
    """A block of samples, and the lookups for them.

    Iterating yields each sample with the products of its views and the unit class texts, [V, K].
    """

    def __init__(self, task: Task, samples: Sequence[Sample]) -> None:
        self._samples = samples
        if len(samples) == 1:
            clip, aux = samples[0].clip, samples[0].aux
            self.clip = CachedLookups(clip[:1])
            self.aux = None if aux is None else CachedLookups(aux[None])
        else:
            clip = np.concatenate([sample.clip for sample in samples])
            self.clip = CachedLookups(np.stack([sample.plain for sample in samples]))
            aux_rows = [sample.aux for sample in samples if sample.aux is not None]
            self.aux = CachedLookups(np.stack(aux_rows)) if aux_rows else None
        self.text_dots = dots(task.unit_text, clip)  # [sum of V, K], the views of one sample after another

    def __iter__(self) -> Iterator[tuple[Sample, Array]]:
        end = 0
        for position, sample in enumerate(self._samples):
            self.clip.position = position
            if self.aux is not None:
                self.aux.position = position
            start, end = end, end + len(sample.clip)
            yield sample, self.text_dots[start:end]
