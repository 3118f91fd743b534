"""What softly labelled samples add up to, in standardised feature spaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Task
from cosmic_tta.ops import Array, as_float32, unit


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

    def adopt(self) -> None:
        """Use what was drafted."""
        self.centre, self.scale = self.draft_centre, self.draft_scale


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
