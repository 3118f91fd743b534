"""ClassCache: a few slots a class, kept for the samples of least entropy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.errors import SnapshotError
from cosmic_tta.ops import Array, Bools, Ints, by_place


@dataclass
class ClassCache:
    """L slots for each of K classes, the surest samples of each kept.

    Invariants: class k fills its slots 0 … count[k]-1 in order of arrival, a replaced slot is
    overwritten in place; an empty slot is a zero row with entropy infinity and sample -1.
    """

    slots: Array  # [K, L, D]
    entropy: Array  # [K, L]
    sample: Ints  # [K, L] which sample of the stream sits there
    count: Ints  # [K]

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int) -> ClassCache:
        """Make a cache with every slot free."""
        return cls(
            slots=np.full((classes, shots, dim), 0, np.float32),  # written, so that no step waits for memory
            entropy=np.full((classes, shots), np.inf, np.float32),
            sample=np.full((classes, shots), -1, np.int64),
            count=np.zeros(classes, np.int64),
        )

    @property
    def shots(self) -> int:
        """L, the number of slots a class."""
        return int(self.slots.shape[1])

    def offer(self, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Offer a sample to its class; return the slot it took, or None.

        It takes a free slot; once the class is full, the slot of the highest entropy if its own is
        lower. Among equals the latest arrival goes, as in a list kept sorted by entropy, stably.
        """
        slot = int(self.count[label])
        if slot < self.shots:
            self.count[label] += 1
        else:
            row = self.entropy[label]
            slot = int(np.lexsort((self.sample[label], row))[-1])
            if not np.float32(entropy) < row[slot]:
                return None
        self.slots[label, slot] = feature
        self.entropy[label, slot] = entropy
        self.sample[label, slot] = sample
        return slot

    def holder(self, sample: int) -> int | None:
        """Return the class whose slots hold a sample of the stream, or None."""
        places = np.flatnonzero((self.sample == sample).any(axis=1))
        return int(places[0]) if len(places) else None

    def filled(self) -> Bools:
        """Which slots hold a sample, [K, L]."""
        taken: Bools = np.arange(self.shots) < self.count[:, None]
        return taken

    def carried(self, places: Ints) -> ClassCache:
        """Return the cache of other classes: of the one at each place, an empty one at -1."""
        return ClassCache(
            by_place(self.slots, places),
            by_place(self.entropy, places, np.inf),
            by_place(self.sample, places, -1),
            by_place(self.count, places),
        )

    def validate(self) -> None:
        """Refuse contents that no stream of samples can leave behind."""
        filled = self.filled()
        ok = (
            ((self.count >= 0) & (self.count <= self.shots)).all()
            and (np.einsum("kld,kld->kl", self.slots, self.slots) < 1.01).all()
            and np.isfinite(self.entropy[filled]).all()
            and (self.sample[filled] >= 0).all()
            and (self.sample[~filled] == -1).all()
            and not self.slots[~filled].any()
        )
        if not ok:
            raise SnapshotError("a cache in the saved state contradicts itself; the file is damaged.")
