"""How evenly the samples of a stream fall upon its classes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.ops import Array, as_float32

HEARING = 30  # samples before auxiliary features are heard: class means know nothing yet


def ramp(value: float) -> float:
    """Return a value, at least 0 and at most 1."""
    return min(max(value, 0.0), 1.0)


def tilt(mass: Array, prior: float) -> Array:
    """By how much, in log, each class has more than its even share, [K]."""
    return as_float32(np.log(len(mass) * (mass + prior) / (mass.sum() + prior * len(mass))))


def dominance(mass: Array) -> float:
    """How much one class dominates: 0 up to twice its even share, 1 from about half of all samples on."""
    share = (float(mass.max()) + 1) / (float(mass.sum()) + len(mass))
    return ramp((share - 2 / len(mass)) / 0.4)


def effective_classes(mass: NDArray[Any]) -> float:
    """How many classes there seem to be, by the entropy of their shares: K if all are even; 0 of nothing.

    >>> round(effective_classes(np.array([3.0, 3.0, 0.0])), 3)
    2.0
    """
    total = float(mass.sum())
    if total <= 0:
        return 0.0
    share = mass / np.float32(total)
    return exp(-float(share @ np.log(share + np.float32(1e-12))))


def unevenness(mass: Array) -> float:
    """The share of the classes that seems to be missing, by the entropy of the others: 0 if all are even.

    >>> round(unevenness(np.array([1, 1, 1, 1], np.float32)), 3), round(unevenness(np.array([1, 0], np.float32)), 3)
    (0.0, 0.5)
    """
    return max(0.0, 1 - effective_classes(mass) / len(mass)) if mass.any() else 0.0


@dataclass
class Witness:
    """What auxiliary features say of a zero-shot whose classes are uneven: is the stream so, or a shift's doing?

    Zero-shot never saw them. Where it foretells them better once its favourites are held back than once frequent
    classes are helped, it favours them without reason.
    """

    told: float  # nats by which zero-shot foretells auxiliary features, summed over samples
    gained: float  # nats by which it does so better with its favourites held back

    def hear(self, zero_shot: Array, held_back: Array, helped: Array, evidence: Array) -> None:
        """Hear a sample: log-probabilities [K] of zero-shot, both biases [K], and what auxiliary means say [K]."""
        even = np.zeros_like(zero_shot)
        foretold = _foretold(np.stack([zero_shot, even, zero_shot - held_back, zero_shot - helped]), evidence)
        self.told += float(foretold[0] - foretold[1])
        self.gained += float(foretold[2] - foretold[3])

    def weight(self, number: int) -> float:
        """How much it counts after so many samples: in full at first, later if it has told a tenth of a nat of each."""
        return max(ramp(10 * self.told / max(number, 1)), ramp(3 - number / HEARING))

    def known(self, number: int, classes: int) -> float:
        """Which share of a class zero-shot foretells of auxiliary features, after so many samples; a half at first."""
        told = self.told / log(max(classes, 2)) + 0.5 * HEARING  # in classes
        return min(max(told / max(number, HEARING), 0.05), 1.0)

    def shift(self) -> float:
        """How much it speaks for a shift: from a gain of 2 % of what it told on, in full from 4 % on."""
        return ramp(50 * self.gained / max(self.told + 0.5 * HEARING, 1.0) - 1)


def _foretold(logits: Array, evidence: Array) -> Array:
    """How likely the evidence [K] is, in log, for classes as probable as each row of logits [R, K] says, [R]."""
    top = float(evidence.max())
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    seen = odds @ np.exp(evidence - np.float32(top)) / odds.sum(axis=1)
    return as_float32(np.log(np.maximum(seen, np.float32(1e-30))) + top)
