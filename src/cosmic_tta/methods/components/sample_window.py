"""SampleWindow: the last samples of a stream, with what is known of their classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.core.errors import SnapshotError

Floats = NDArray[np.float64]

RECENT = 50  # samples of the recent mean, and samples that are kept after a sudden change
MIN_VARIANCE = 1e-12  # of a window; below it is rounding
CHANGE = 4.0  # squared distance of the recent mean from the window's mean, relative to what chance makes of it


@dataclass
class SampleWindow:
    """A ring of M samples. A row has W numbers; `moments` and `recent_mean` are of the rows as they came.

    Invariants: samples 0 … held-1 are in use. `slot` is the next one to be written, the oldest if the ring is full.
    """

    samples: Array  # [M, W]
    prior: Array  # [M, K] log-probabilities of a sample's class before any class mean is asked
    label: Ints  # [M] the class that each sample supports
    confidence: Array  # [M] its probability
    slot: int
    held: int
    moments: Floats  # [2, W] sums of the rows, and of their squares
    recent_mean: Array  # [W] mean of the last few rows

    @classmethod
    def empty(cls, room: int, width: int, classes: int) -> SampleWindow:
        """Make a window that holds nothing."""
        samples, prior = np.zeros((room, width), np.float32), np.zeros((room, classes), np.float32)
        label, confidence = np.zeros(room, np.int64), np.zeros(room, np.float32)
        return cls(samples, prior, label, confidence, 0, 0, np.zeros((2, width)), np.zeros(width, np.float32))

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind."""
        room = len(self.samples)
        next_slot = self.slot == self.held % room if self.held < room else 0 <= self.slot < room
        if not (0 <= self.held <= room and next_slot):
            raise SnapshotError("the saved window of samples contradicts itself; the file is damaged.")
        if not ((self.label >= 0) & (self.label < self.prior.shape[1])).all():
            raise SnapshotError("the saved window has labels of no class; the file is damaged.")

    def add(self, row: Array, prior: Array, label: int, confidence: float) -> None:
        """Put a sample into the window, in place of the oldest one if it is full."""
        exact = row.astype(np.float64)
        self.moments[0] += exact
        self.moments[1] += exact * exact
        if self.held == len(self.samples):
            old = self.samples[self.slot].astype(np.float64)
            self.moments[0] -= old
            self.moments[1] -= old * old
        else:
            self.held += 1
        self.samples[self.slot], self.prior[self.slot] = row, prior
        self.label[self.slot], self.confidence[self.slot] = label, confidence
        self.slot = (self.slot + 1) % len(self.samples)
        self.recent_mean += (row - self.recent_mean) / np.float32(min(self.held, RECENT))

    def newest(self, count: int) -> Ints:
        """Return where the last samples are, the oldest first."""
        return (self.slot - count + np.arange(count)) % len(self.samples)

    def take(self, where: Ints) -> tuple[Array, Array, Ints, Array]:
        """Return copies of some samples: their rows, priors, labels and confidences."""
        return self.samples[where], self.prior[where], self.label[where], self.confidence[where]

    def refill(self, samples: Array, prior: Array, label: Ints, confidence: Array) -> None:
        """Hold these samples alone."""
        held = len(samples)
        self.samples[:held], self.prior[:held] = samples, prior
        self.label[:held], self.confidence[:held] = label, confidence
        self.held, self.slot = held, held % len(self.samples)
        exact = samples.astype(np.float64)
        self.moments[:] = exact.sum(axis=0), (exact * exact).sum(axis=0)

    def keep_recent(self) -> None:
        """Hold the last few samples alone."""
        self.refill(*self.take(self.newest(min(self.held, RECENT))))

    def has_changed(self, spaces: tuple[slice, ...]) -> bool:
        """Tell whether the last few samples lie elsewhere than the window, as after a change of camera.

        A mean of n independent samples is off by 1/n of their variance, squared. The recent mean is a moving average
        that counts like 2·RECENT - 1 samples. Its squared distance is averaged over the feature spaces.
        """
        if self.held < 3 * RECENT:
            return False
        mean = self.moments[0] / self.held
        variance = self.moments[1] / self.held - mean * mean
        moved = (self.recent_mean - mean) ** 2
        ratios = [moved[space].sum() / max(variance[space].sum(), MIN_VARIANCE) for space in spaces]
        return bool(sum(ratios) / len(ratios) * (2 * RECENT - 1) > CHANGE)

    def supporters(self, label: int, query: Array, most: int) -> tuple[Ints, Array]:
        """Return the surest samples of a class: how many samples ago each came, and its weight in an answer."""
        own = np.flatnonzero(self.label[: self.held] == label)
        own = own[np.argsort(-self.confidence[own], kind="stable")[:most]]
        weights = self.confidence[own] * (self.samples[own, : len(query)] @ query)
        return (self.slot - 1 - own) % len(self.samples), weights
