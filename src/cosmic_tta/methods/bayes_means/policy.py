"""Decides how far adaptation may change the zero-shot prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, softmax, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.bayes_means.zero_shot_bias import HEARING, ZeroShotBias
from cosmic_tta.methods.components.class_balance import clip01, unevenness

PATIENCE = 2.0  # samples a class before anything is made of what the class means do to zero-shot's answers
FEW = 2.0  # samples a class: fewer fall unevenly by chance
LEAST_NEED = 0.02  # of their trust, that the class means always keep
CALM = 4.0  # power of how seldom class means differ, with which they yield where no shift is suspected
SURE = (0.75, 0.85)  # zero-shot's mean highest probability: where frequencies begin to count without means, and in full


class AdaptationPolicy(NamedTuple):
    """How careful to be with what zero-shot says; as it is where there is no reason for it."""

    shift: float = 0.0  # how far a shift is to blame for classes that zero-shot favours, from 0 to 1
    suspicion: float = 1.0  # how far there may be one
    seeming: float = 0.0  # how uneven the classes seem to be, from 0 to 1, where no shift is to blame
    uneven: float = 0.0  # how uneven they are: a correlated stream only seems so
    need: float = 1.0  # how much the class means are needed, from 1 down
    spared: float = 1.0  # how much zero-shot's favourites may be held back, from 1 down
    told: float = 1.0  # how much class frequencies count, from 1 down

    def thrown_away(self) -> AdaptationPolicy:
        """Return what would be if nothing held the class means back."""
        return self._replace(uneven=0.0, need=1.0, spared=1.0, told=1.0)


@dataclass
class DisagreementRate:
    """What the class means would say if nothing held them back, and how often zero-shot says otherwise."""

    mass: Array  # [K] sum of that
    differed: float  # samples of which they say otherwise than zero-shot ...
    judged: float  # ... out of so many

    @classmethod
    def start(cls, classes: int, apart: float) -> DisagreementRate:
        """Begin as if a few samples had differed in just that share."""
        return cls(np.zeros(classes, np.float32), PATIENCE * classes * apart, PATIENCE * classes)

    def validate(self) -> None:
        """Refuse counts that cannot be."""
        if not (0 <= self.differed <= self.judged and self.judged > 0):
            raise SnapshotError("the saved state has counted what cannot be; the file is damaged.")

    def count(self, verdict: Array, zero_shot: Array) -> None:
        """Count a sample: logits [K] of the verdict, and zero-shot's."""
        self.mass = self.mass + softmax(verdict)
        self.differed += float(verdict.argmax() != zero_shot.argmax())
        self.judged += 1

    def caution(
        self, favour: ZeroShotBias, zero_shot_mass: Array, free: float, apart: float, sure: float
    ) -> AdaptationPolicy:
        """Return how careful to be.

        Zero-shot is left alone in two kinds of stream, in so far as class means seldom differ from it there. Where no
        shift is even suspected there is little to mend: means that differ half as often as `apart` must have a reason.
        And where classes are uneven, a rare class learns from the errors of frequent ones, and what means differ in is
        mostly such an error: the more so, the less auxiliary features know. A shift makes zero-shot's classes uneven
        too: witnesses tell the two apart.

        Args:
            favour: what witnesses say of a shift.
            zero_shot_mass: [K] the sum of zero-shot's probabilities.
            free: how far the stream is free of correlation, from 0 to 1.
            apart: share of samples; where classes are uneven, means that differ as often are needed.
            sure: zero-shot's highest probability, in the mean.
        """
        classes = len(self.mass)
        chance = (classes - 1) / (2 * self.judged)  # by which a sample is more uneven than what it is of
        missing = max(unevenness(self.mass), unevenness(zero_shot_mass)) - chance
        shift, suspicion = favour.shift(), favour.suspicion()
        seeming = clip01(favour.number / (FEW * classes) - 1) * clip01(10 * missing - 1) * (1 - shift)
        calm = clip01(favour.number / max(FEW * classes, HEARING) - 1) * (1 - suspicion)
        uneven = free * seeming
        share = self.differed / (self.judged * apart)
        need = min(1.0, share) ** (2 / favour.known() * uneven) * min(1.0, 2 * share) ** (CALM * free * calm)
        need = max(LEAST_NEED, need)
        idle = max(seeming, calm) * (1 - need)
        # Frequencies need no class means: they are right where zero-shot is, in the mean, though not where a shift is
        # to blame for them.
        heard = (1 - suspicion) * clip01((sure - SURE[0]) / (SURE[1] - SURE[0]))
        return AdaptationPolicy(shift, suspicion, seeming, uneven, need, 1 - idle, 1 - idle * (1 - heard))

    def remapped(self, class_map: Ints) -> DisagreementRate:
        """Return the verdicts on other classes."""
        return replace(self, mass=take_classes(self.mass, class_map))
