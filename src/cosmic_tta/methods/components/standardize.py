"""Standardizer: centre and scale every dimension of a feature space by the samples that came."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, as_float32, unit


@dataclass
class Standardizer:
    """The stored samples of one feature space, and how a feature is standardised in it.

    To standardise is to centre and scale each dimension, then to scale to unit length.
    A draft can be fitted while the version in use stays as it is. Before the first fit nothing is changed.
    """

    kept: Array  # [M, D] stored samples, not standardised
    weighted_sum: NDArray[np.float64]  # [D] weighted sum of x over all samples
    weighted_squares: NDArray[np.float64]  # [D] weighted sum of x²
    centre: Array  # [D] in use
    scale: Array  # [D]
    draft_centre: Array  # [D] equal to the one in use if there is no draft
    draft_scale: Array  # [D]

    @classmethod
    def empty(cls, items: int, dim: int) -> Standardizer:
        """Make a standardizer with room for this many samples."""
        zeros, ones = np.zeros((2, dim), np.float32), np.ones((2, dim), np.float32)
        kept = np.zeros((items, dim), np.float32)
        return cls(kept, np.zeros(dim), np.zeros(dim), zeros[0], ones[0], zeros[1], ones[1])

    def transform(self, rows: Array) -> Array:
        """Standardise features with the version in use."""
        return unit((rows - self.centre) * self.scale)

    def transform_draft(self, rows: Array) -> Array:
        """Standardise features with the draft."""
        return unit((rows - self.draft_centre) * self.draft_scale)

    def store(self, slot: int, x: Array, weight: float) -> None:
        """Put a sample into its slot and count it for the next fit."""
        self.kept[slot] = x
        self.weighted_sum += weight * x
        self.weighted_squares += weight * x.astype(np.float64) ** 2

    def fit_draft(self, number: int, weight: float, prior: float) -> None:
        """Fit the draft to all samples: their mean, and each dimension's variance shrunk to the average variance.

        Args:
            number: Number of samples.
            weight: Sum of their weights.
            prior: Strength of the shrinkage, in samples.
        """
        mean = self.weighted_sum / weight
        variance = np.maximum(self.weighted_squares / weight - mean * mean, 0)
        average = variance.mean()
        variance = (number * variance + prior * average) / (number + prior)
        self.draft_centre = as_float32(mean)
        # A dimension that never varies is scaled up at most a thousandfold.
        bounded = np.maximum(variance, 1e-6 * average)
        self.draft_scale = as_float32(np.sqrt(average / bounded)) if average > 0 else np.ones_like(self.scale)

    def copy(self) -> Standardizer:
        """Return a deep copy."""
        return Standardizer(*(getattr(self, part.name).copy() for part in fields(self)))

    def reset_draft(self) -> None:
        """Make the draft equal to the version in use."""
        self.draft_centre, self.draft_scale = self.centre.copy(), self.scale.copy()

    def use_draft(self) -> None:
        """Make the draft the version in use."""
        self.centre, self.scale = self.draft_centre, self.draft_scale
