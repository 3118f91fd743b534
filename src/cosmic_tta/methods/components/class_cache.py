"""ClassCache: a few slots per class, kept for the samples of lowest entropy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.types import MAY_BE_INFINITE, SAMPLE_INDEX


@dataclass
class ClassCache:
    """L slots for each of K classes; each class keeps its samples of lowest entropy.

    Invariants: class k fills its slots 0 … count[k]-1 in order of arrival. A replaced slot is overwritten in place.
    An empty slot is a row of zeros with entropy infinity and sample -1.
    """

    slots: Array  # [K, L, D]
    entropy: Array = field(metadata=MAY_BE_INFINITE)  # [K, L]
    sample: Ints = field(metadata=SAMPLE_INDEX)  # [K, L] number of the sample in the stream
    count: Ints  # [K] filled slots

    @classmethod
    def empty(cls, classes: int, shots: int, dim: int) -> ClassCache:
        """Make a cache with every slot free."""
        return cls(
            slots=np.full((classes, shots, dim), 0, np.float32),  # written now, so that no step waits for memory
            entropy=np.full((classes, shots), np.inf, np.float32),
            sample=np.full((classes, shots), -1, np.int64),
            count=np.zeros(classes, np.int64),
        )

    @property
    def shots(self) -> int:
        """L, the number of slots per class."""
        return int(self.slots.shape[1])

    def try_insert(self, label: int, feature: Array, entropy: float, sample: int) -> int | None:
        """Insert a sample under its class, if there is a free slot or one of higher entropy.

        The slot of the highest entropy is replaced. Among equals it is the latest arrival, as in a list that is
        kept in stable order of entropy.
        Compiled twin, called by `PrototypeMemory`: kernel/cosmic/cache_insert.c.

        Args:
            label: Class under which the sample is kept.
            feature: Its feature, [D].
            entropy: Its entropy.
            sample: Its number in the stream.

        Returns:
            The slot that the sample took, or None.
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

    def class_of_sample(self, sample: int) -> int | None:
        """Return the class under which a sample of the stream is kept, or None."""
        classes = np.flatnonzero((self.sample == sample).any(axis=1))
        return int(classes[0]) if len(classes) else None

    def filled(self) -> Bools:
        """Return which slots hold a sample, [K, L]."""
        taken: Bools = np.arange(self.shots) < self.count[:, None]
        return taken

    def as_memory(self, name: str) -> FeatureMemory:
        """Return the filled slots, class by class."""
        classes, slots = np.nonzero(self.filled())
        return FeatureMemory(name, self.slots[classes, slots], classes, self.sample[classes, slots], self.shots)

    def remapped(self, class_map: Ints) -> ClassCache:
        """Return the cache of remapped classes; a new class is empty."""
        return ClassCache(
            take_classes(self.slots, class_map),
            take_classes(self.entropy, class_map, np.inf),
            take_classes(self.sample, class_map, -1),
            take_classes(self.count, class_map),
        )

    def validate(self) -> None:
        """Raise a SnapshotError for contents that no stream of samples can leave behind."""
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
