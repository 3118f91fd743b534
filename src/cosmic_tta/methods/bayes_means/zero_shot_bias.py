"""Estimates which classes zero-shot predicts too often, and whether a shift of the images is the cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, sqrt

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, softmax, take_classes, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.components.class_balance import clip01
from cosmic_tta.methods.components.class_statistics import add_outer
from cosmic_tta.methods.components.gaussian_classes import GaussianClassModel

HEARING = 30  # samples before witnesses are heard: class means know nothing yet
PRIOR = 5.0  # samples a class, as which an offset of nothing counts
WIDTH = 64  # dimensions in which witnesses look: what they see is cheap, however wide a space is
CHANCE = 0.3  # nats²: what a witness has erred by before it was heard
SUSPECTED = 2.0  # standard errors, up to which a shift is more and more suspected
BELIEVED = (4.0, 5.5)  # where it begins to be believed, and from where it is in full
BOUND, PROVEN = 1.0, 8.0  # nats: most that is taken off a class; from so many standard errors on, each allows one more


@dataclass
class BiasTest:
    """One feature space, as somebody sees it who believes zero-shot: class means from its labels alone.

    If zero-shot is right, these means move its labels to and fro. If they move them away from its favourites again
    and again, it favours them without reason. Nothing that the method answers comes back to a witness.
    """

    sums: Array  # [K, 64] sum of z·x, softly labelled
    mass: Array  # [K] sum of z
    square: Array  # [K] sum of z²
    total: Array  # [64] sum of x
    told: float  # nats by which zero-shot foretells the space, summed over samples
    pull: float  # by how much, in nats, favourites were found rarer than zero-shot foretold, summed ...
    scatter: float  # ... and the squares of that

    @classmethod
    def empty(cls, classes: int) -> BiasTest:
        """Make one that has seen nothing."""
        mass, square = np.zeros((2, classes), np.float32)
        sums = np.zeros((classes, WIDTH), np.float32)
        return cls(sums, mass, square, np.zeros(WIDTH, np.float32), 0.0, 0.0, 0.0)

    def validate(self) -> None:
        """Refuse a scatter that cannot be."""
        if self.scatter < 0:
            raise SnapshotError("the saved state has heard a witness that cannot be; the file is damaged.")

    def see(self, x: Array, number: int, zero_shot: Array, offset: Array, model: GaussianClassModel) -> None:
        """See the so-manieth feature [D]: log-probabilities [K] of zero-shot, and what would even its classes [K]."""
        x = unit(x @ _directions(len(x)))
        self.total = self.total + x
        said, _ = model.log_likelihood(x, self.mass, self.square, self.sums, self.total, number)
        label = softmax(zero_shot + said)
        add_outer(self.sums, label[None], x[None])
        self.mass = self.mass + label
        self.square = self.square + label * label
        if number > HEARING:
            foretold = softmax(zero_shot)
            pull = float((foretold - label) @ offset)
            self.pull += pull
            self.scatter += pull * pull
            odds = np.exp(said - said.max())
            self.told += log(max(float(foretold @ odds) / float(odds.mean()), 1e-30))

    def errors(self) -> float:
        """By how many standard errors it speaks for a shift."""
        return self.pull / sqrt(self.scatter + CHANCE)

    def remapped(self, class_map: Ints) -> BiasTest:
        """Return the witness of other classes."""
        sums, mass, square = (take_classes(part, class_map) for part in (self.sums, self.mass, self.square))
        return replace(self, sums=sums, mass=mass, square=square, total=self.total.copy())


@dataclass
class ZeroShotBias:
    """What zero-shot's logits must lose for its classes to come out even, and how far that is right.

    It is right if a shift made zero-shot favour some classes; it is wrong if the stream itself has more of them.
    """

    offset: Array  # [K]
    curve: Array  # [K] how firmly each class's offset stands: the curvature of what it was fitted to
    clip: BiasTest
    aux: BiasTest | None
    number: int  # samples heard

    @classmethod
    def empty(cls, classes: int, *, aux: bool) -> ZeroShotBias:
        """Make one that has heard nothing."""
        firm = np.full(classes, PRIOR * classes, np.float32)
        beside = BiasTest.empty(classes) if aux else None
        return cls(np.zeros(classes, np.float32), firm, BiasTest.empty(classes), beside, 0)

    def validate(self) -> None:
        """Refuse an offset that stands on nothing."""
        if not (self.curve > 0).all() or self.number < 0:
            raise SnapshotError("the saved state has heard of a shift that cannot be; the file is damaged.")

    def hear(self, zero_shot: Array, features: tuple[Array, ...], model: GaussianClassModel) -> None:
        """Hear a sample: log-probabilities [K] of zero-shot, and the features of all spaces as they came."""
        self.number += 1
        for witness, x in zip(self.witnesses(), features, strict=True):
            witness.see(x, self.number, zero_shot, self.offset, model)
        # A step of Newton's towards even classes.
        label = softmax(zero_shot - self.offset)
        classes = np.float32(len(label))
        self.curve = self.curve + classes * label * (1 - label)
        self.offset = as_float32(self.offset + (classes * label - 1) / self.curve)

    def suspicion(self) -> float:
        """How far there may be a shift, from 0 to 1."""
        return clip01(self._errors() / SUSPECTED)

    def shift(self) -> float:
        """How far a shift is believed, from 0 to 1."""
        none, in_full = BELIEVED
        return clip01((self._errors() - none) / (in_full - none))

    def bounded(self) -> Array:
        """What to take off [K] if a shift is believed: the offset, bounded while the evidence is not overwhelming.

        A shift and an uneven stream may come together. Then there is a shift to believe in, and the whole offset is
        still too much; what too large an offset costs grows faster than what it gains.
        """
        most = BOUND + max(0.0, self._errors() - PROVEN)
        return np.clip(self.offset, -most, most)

    def _errors(self) -> float:
        """By how many standard errors all witnesses together speak for a shift."""
        witnesses = self.witnesses()
        return sum(witness.errors() for witness in witnesses) / sqrt(len(witnesses))

    def known(self) -> float:
        """Which share of a class zero-shot foretells of auxiliary features; a half at first, and without them."""
        if self.aux is None:
            return 0.5
        told = self.aux.told / log(max(len(self.offset), 2)) + 0.5 * HEARING  # in classes
        return min(max(told / max(self.number, HEARING), 0.05), 1.0)

    def remapped(self, class_map: Ints) -> ZeroShotBias:
        """Return the favour of other classes; a new one has no offset yet."""
        return replace(
            self,
            offset=take_classes(self.offset, class_map),
            curve=take_classes(self.curve, class_map, PRIOR * len(class_map)),
            clip=self.clip.remapped(class_map),
            aux=None if self.aux is None else self.aux.remapped(class_map),
        )

    def witnesses(self) -> tuple[BiasTest, ...]:
        """The witnesses that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


@lru_cache(maxsize=16)
def _directions(dim: int) -> Array:
    """Return random signs [D, 64] that lay features out in fewer dimensions, the same on every machine."""
    bits = np.random.PCG64(dim).random_raw(dim)  # 64 bits each; the generator's own stream never changes
    signs: Array = as_float32(1 - 2.0 * np.unpackbits(bits.astype("<u8").view(np.uint8))).reshape(dim, WIDTH)
    signs.flags.writeable = False
    return signs
