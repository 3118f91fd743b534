"""What softly labelled samples add up to, in standardised feature spaces."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Task
from cosmic_tta.errors import SnapshotError
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Ints, as_float32, by_place, unit

TOGETHER = 16  # samples that enter class sums at once, about as fast as one would


@dataclass
class Space:
    """One feature space: its kept samples as they came, and how a feature is standardised in it.

    Standardised is: each dimension centred and scaled, then unit length. At first that changes nothing.
    """

    kept: Array  # [M, D]
    moment: NDArray[np.float64]  # [D] weighted sum of x over all samples
    moment2: NDArray[np.float64]  # [D] weighted sum of x²
    centre: Array  # [D] in use
    scale: Array  # [D]
    draft_centre: Array  # [D] drafted; the one in use where there is no draft
    draft_scale: Array  # [D]

    @classmethod
    def empty(cls, items: int, dim: int) -> Space:
        """Make a space with room for so many samples."""
        zeros, ones = np.zeros((2, dim), np.float32), np.ones((2, dim), np.float32)
        kept = np.zeros((items, dim), np.float32)
        return cls(kept, np.zeros(dim), np.zeros(dim), zeros[0], ones[0], zeros[1], ones[1])

    def standard(self, rows: Array) -> Array:
        """Standardise as is in use."""
        return unit((rows - self.centre) * self.scale)

    def drafted(self, rows: Array) -> Array:
        """Standardise as drafted."""
        return unit((rows - self.draft_centre) * self.draft_scale)

    def keep(self, slot: int, x: Array, weight: float) -> None:
        """Put a sample into its slot and count it in."""
        self.kept[slot] = x
        self.moment += weight * x
        self.moment2 += weight * x.astype(np.float64) ** 2

    def fit(self, number: int, weight: float, prior: float) -> None:
        """Draft from all samples: their mean, and each dimension's variance shrunk to the average one."""
        mean = self.moment / weight
        variance = np.maximum(self.moment2 / weight - mean * mean, 0)
        average = variance.mean()
        variance = (number * variance + prior * average) / (number + prior)
        self.draft_centre = as_float32(mean)
        # A dimension that never varies is not blown up beyond a thousandfold.
        quiet = np.maximum(variance, 1e-6 * average)
        self.draft_scale = as_float32(np.sqrt(average / quiet)) if average > 0 else np.ones_like(self.scale)

    def copy(self) -> Space:
        """Return the same, in arrays of its own."""
        return Space(*(getattr(self, part.name).copy() for part in fields(self)))

    def forget_draft(self) -> None:
        """Draft what is in use."""
        self.draft_centre, self.draft_scale = self.centre.copy(), self.scale.copy()

    def adopt(self) -> None:
        """Use what was drafted."""
        self.centre, self.scale = self.draft_centre, self.draft_scale


@dataclass
class Sums:
    """What standardised samples add up to in one space."""

    classes: Array  # [K, D] sum of z_k·x
    total: Array  # [D] weighted sum of x
    waiting: Array  # [16, D] samples that are in all but the class sums


@dataclass
class Tally:
    """What softly labelled samples add up to."""

    mass: Array  # [K] sum of z_k
    square: Array  # [K] sum of z_k²
    number: float  # of samples, as they weigh in the running mean
    waiting: Array  # [16, K] soft labels of the samples that wait
    late: int  # how many do
    clip: Sums
    aux: Sums | None

    @classmethod
    def empty(cls, task: Task) -> Tally:
        """Make the tally of no samples."""

        def sums(dim: int) -> Sums:
            rows = np.zeros((task.classes, dim), np.float32)
            return Sums(rows, np.zeros(dim, np.float32), np.zeros((TOGETHER, dim), np.float32))

        mass, square = np.zeros((2, task.classes), np.float32)
        waiting = np.zeros((TOGETHER, task.classes), np.float32)
        aux = None if task.aux_dim is None else sums(task.aux_dim)
        return cls(mass, square, 0.0, waiting, 0, sums(task.dim), aux)

    def validate(self) -> None:
        """Refuse more waiting samples than there can be."""
        if not 0 <= self.late < TOGETHER:
            raise SnapshotError(f"the saved state has {self.late} samples waiting; the file is damaged.")

    def add(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        """Count samples in: soft labels [B, K], standardised features [B, D] of each space, weights [B] in the mean."""
        self._count(labels, features, weights)
        for sums, rows in zip(self.spaces(), features, strict=True):
            absorb(sums.classes, labels, rows)

    def add_late(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        """Count one sample in, where nobody looks at the class sums yet: it enters them with others, later."""
        self._count(labels, features, weights)
        self.waiting[self.late] = labels[0]
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.waiting[self.late] = rows[0]
        self.late += 1
        if self.late == TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Let those that wait enter the class sums."""
        if self.late:
            for sums in self.spaces():
                absorb(sums.classes, self.waiting[: self.late], sums.waiting[: self.late])
            self.late = 0

    def _count(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        self.mass += labels.sum(axis=0)
        self.square += (labels * labels).sum(axis=0)
        self.number += float(weights.sum())
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.total += weights @ rows

    def carried(self, places: Ints, task: Task) -> Tally:
        """Return the tally of other classes: what all samples add up to stays."""
        tally = Tally.empty(task)
        tally.mass, tally.square = by_place(self.mass, places), by_place(self.square, places)
        tally.number, tally.late = self.number, self.late
        tally.waiting = np.ascontiguousarray(by_place(self.waiting.T, places).T)
        for mine, its in zip(tally.spaces(), self.spaces(), strict=True):
            mine.classes, mine.total, mine.waiting = by_place(its.classes, places), its.total.copy(), its.waiting.copy()
        return tally

    def fade(self, share: float) -> None:
        """Let the samples count for less."""
        self.settle()
        keep = np.float32(share)
        self.mass *= keep
        self.square *= keep * keep
        self.number *= share
        for sums in self.spaces():
            sums.classes *= keep
            sums.total *= keep

    def become(self, other: Tally) -> None:
        """Count what the other does, in this one's own arrays."""
        self.mass[:], self.square[:], self.number = other.mass, other.square, other.number
        self.waiting[:], self.late = other.waiting, other.late
        for mine, its in zip(self.spaces(), other.spaces(), strict=True):
            mine.classes[:], mine.total[:], mine.waiting[:] = its.classes, its.total, its.waiting

    def spaces(self) -> tuple[Sums, ...]:
        """The sums of the spaces that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


def absorb(sums: Array, labels: Array, rows: Array) -> None:
    """Add samples to class sums [K, D], in place: soft labels [B, K], features [B, D]."""
    if COMPILED is None:
        sums += labels.T @ rows
    else:
        COMPILED.absorb(sums, labels, rows)


def measure(sums: Array, x: Array, g: Array) -> tuple[Array, Array, Array]:
    """Return the products [K] of class sums with a sample, with the running mean, and with themselves."""
    if COMPILED is None:
        return sums @ x, sums @ g, np.einsum("kd,kd->k", sums, sums)
    out = np.empty((3, len(sums)), np.float32)
    COMPILED.measure(sums, x, g, out)
    return out[0], out[1], out[2]


def heaviest(weights: Array, keep: int) -> Ints:
    """Return where the largest weights [n] are, the largest first, the first of equals first."""
    if COMPILED is None:
        order: Ints = np.argsort(-weights, kind="stable")[:keep]
        return order
    slots = np.empty(min(keep, len(weights)), np.int64)
    COMPILED.heaviest(weights, slots)
    return slots
