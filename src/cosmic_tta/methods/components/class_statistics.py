"""ClassStatistics: sums over softly labelled samples, per class and feature space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.types import Task

BUFFER_SIZE = 16  # samples that enter class sums together, which takes about as long as one of them


@dataclass
class ClassSums:
    """Sums of standardised features in one feature space."""

    classes: Array  # [K, D] sum of z_k·x
    total: Array  # [D] weighted sum of x
    buffer: Array  # [16, D] samples that are in `total` and not yet in `classes`


@dataclass
class ClassStatistics:
    """Sums over samples with soft labels z, in every feature space."""

    soft_count: Array  # [K] sum of z_k
    square: Array  # [K] sum of z_k²
    total_weight: float  # sum of the samples' weights in the running mean
    buffer: Array  # [16, K] soft labels of the buffered samples
    buffered: int  # number of buffered samples
    clip: ClassSums
    aux: ClassSums | None

    @classmethod
    def empty(cls, task: Task) -> ClassStatistics:
        """Make the statistics of no samples."""

        def sums(dim: int) -> ClassSums:
            rows = np.zeros((task.classes, dim), np.float32)
            return ClassSums(rows, np.zeros(dim, np.float32), np.zeros((BUFFER_SIZE, dim), np.float32))

        soft_count, square = np.zeros((2, task.classes), np.float32)
        buffer = np.zeros((BUFFER_SIZE, task.classes), np.float32)
        aux = None if task.aux_dim is None else sums(task.aux_dim)
        return cls(soft_count, square, 0.0, buffer, 0, sums(task.dim), aux)

    def validate(self) -> None:
        """Raise a SnapshotError for more buffered samples than there can be."""
        if not 0 <= self.buffered < BUFFER_SIZE:
            raise SnapshotError(f"the saved state has {self.buffered} buffered samples; the file is damaged.")

    def add(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        """Add samples.

        Args:
            labels: Soft labels, [B, K].
            features: Standardised features per space, [B, D] each.
            weights: Weights of the samples in the running mean, [B].
        """
        self._count(labels, features, weights)
        for sums, rows in zip(self.spaces(), features, strict=True):
            add_outer(sums.classes, labels, rows)

    def add_buffered(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        """Add one sample; it enters the class sums together with others, at the latest on `flush`."""
        self._count(labels, features, weights)
        self.buffer[self.buffered] = labels[0]
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.buffer[self.buffered] = rows[0]
        self.buffered += 1
        if self.buffered == BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Add the buffered samples to the class sums."""
        if self.buffered:
            for sums in self.spaces():
                add_outer(sums.classes, self.buffer[: self.buffered], sums.buffer[: self.buffered])
            self.buffered = 0

    def _count(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        self.soft_count += labels.sum(axis=0)
        self.square += (labels * labels).sum(axis=0)
        self.total_weight += float(weights.sum())
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.total += weights @ rows

    def remapped(self, class_map: Ints, task: Task) -> ClassStatistics:
        """Return the statistics of remapped classes; sums over all samples stay."""
        other = ClassStatistics.empty(task)
        other.soft_count = take_classes(self.soft_count, class_map)
        other.square = take_classes(self.square, class_map)
        other.total_weight, other.buffered = self.total_weight, self.buffered
        other.buffer = np.ascontiguousarray(take_classes(self.buffer.T, class_map).T)
        for target, source in zip(other.spaces(), self.spaces(), strict=True):
            target.classes = take_classes(source.classes, class_map)
            target.total, target.buffer = source.total.copy(), source.buffer.copy()
        return other

    def decay(self, share: float) -> None:
        """Multiply the weight of all samples by a share."""
        self.flush()
        factor = np.float32(share)
        self.soft_count *= factor
        self.square *= factor * factor
        self.total_weight *= share
        for sums in self.spaces():
            sums.classes *= factor
            sums.total *= factor

    def copy_from(self, other: ClassStatistics) -> None:
        """Copy the values of other statistics into the arrays of these."""
        self.soft_count[:], self.square[:], self.total_weight = other.soft_count, other.square, other.total_weight
        self.buffer[:], self.buffered = other.buffer, other.buffered
        for target, source in zip(self.spaces(), other.spaces(), strict=True):
            target.classes[:], target.total[:], target.buffer[:] = source.classes, source.total, source.buffer

    def spaces(self) -> tuple[ClassSums, ...]:
        """Return the sums per feature space: CLIP, then the auxiliary one if there is one."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


def add_outer(sums: Array, labels: Array, rows: Array) -> None:
    """Add samples to class sums [K, D] in place: soft labels [B, K], features [B, D]."""
    if COMPILED is None:
        sums += labels.T @ rows
    else:
        COMPILED.add_outer(sums, labels, rows)


def class_products(sums: Array, x: Array, g: Array) -> tuple[Array, Array, Array]:
    """Return the products [K] of class sums with a sample x, with the running mean g, and with themselves."""
    if COMPILED is None:
        return sums @ x, sums @ g, np.einsum("kd,kd->k", sums, sums)
    out = np.empty((3, len(sums)), np.float32)
    COMPILED.class_products(sums, x, g, out)
    return out[0], out[1], out[2]


def top_indices(weights: Array, count: int) -> Ints:
    """Return the indices of the largest weights [n], the largest first; of equals the first comes first."""
    if COMPILED is None:
        order: Ints = np.argsort(-weights, kind="stable")[:count]
        return order
    indices = np.empty(min(count, len(weights)), np.int64)
    COMPILED.top_indices(weights, indices)
    return indices
