"""What softly labelled samples add up to, in standardised feature spaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core import Task
from cosmic_tta.ops import Array, unit


@dataclass
class Sums:
    """What standardised samples add up to in one space."""

    classes: Array  # [K, D] sum of z_k·x
    total: Array  # [D] weighted sum of x


@dataclass
class Tally:
    """What softly labelled samples add up to."""

    mass: Array  # [K] sum of z_k
    square: Array  # [K] sum of z_k²
    number: float  # of samples, as they weigh in the running mean
    clip: Sums
    aux: Sums | None

    @classmethod
    def empty(cls, task: Task) -> Tally:
        """Make the tally of no samples."""

        def sums(dim: int) -> Sums:
            return Sums(np.zeros((task.classes, dim), np.float32), np.zeros(dim, np.float32))

        nothing = np.zeros((2, task.classes), np.float32)
        return cls(nothing[0], nothing[1], 0.0, sums(task.dim), None if task.aux_dim is None else sums(task.aux_dim))

    def add(self, labels: Array, features: tuple[Array, ...], weights: Array) -> None:
        """Count samples in: soft labels [B, K], standardised features [B, D] of each space, weights [B] in the mean."""
        self.mass += labels.sum(axis=0)
        self.square += (labels * labels).sum(axis=0)
        self.number += float(weights.sum())
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.classes += labels.T @ rows
            sums.total += weights @ rows

    def fade(self, share: float) -> None:
        """Let the samples count for less."""
        keep = np.float32(share)
        self.mass *= keep
        self.square *= keep * keep
        self.number *= share
        for sums in self.spaces():
            sums.classes *= keep
            sums.total *= keep

    def spaces(self) -> tuple[Sums, ...]:
        """The sums of the spaces that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


def standardise(rows: Array, centre: Array, scale: Array) -> Array:
    """Centre and scale each dimension, then unit length; before the first sweep nothing changes."""
    return unit((rows - centre) * scale)
