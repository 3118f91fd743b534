"""Label-free fusion of COSMIC's branches: each earns its weight, and zero-shot answers until it has.

The CLIP cache is the referee. Zero-shot and the auxiliary space are weighed by how well they foretell, together, what
the cache says of an image that is not in it; the cache itself weighs by how often it differs from zero-shot.
`docs/fusion.md` has the rule, what each constant does, and what did not work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.cache import ClassCache
from cosmic_tta.errors import SnapshotError
from cosmic_tta.hyperclass import Centring
from cosmic_tta.ops import Array, Bools, Ints, affinity, as_float32, by_place, dots, softmax

Floats = NDArray[np.float64]

PRIOR = (4.0, 0.01)  # precision of the weights before the first image: zero-shot's is 1 ± 0.5, the auxiliary's 0 ± 10
CAUTION = 1.0  # standard deviations that an auxiliary weight yields
PATIENCE = 20.0  # images' worth of agreement, and of independence, before the first
APART = 0.15  # share of differences from which the CLIP cache counts in full; fewer are mostly its own errors
LEAST = 0.2  # of zero-shot's weight


@dataclass
class ClassSums:
    """What the slots of a cache add up to, class by class: from it follows how likely an image is under each."""

    sums: Array  # [K, E]
    total: Array  # [E] their sum
    square: Array  # [K] their squared lengths

    @classmethod
    def empty(cls, classes: int, dim: int) -> ClassSums:
        """Make the sums of an empty cache."""
        return cls(np.zeros((classes, dim), np.float32), np.zeros(dim, np.float32), np.zeros(classes, np.float32))

    def follow(self, cache: ClassCache, label: int) -> None:
        """Take note that the slots of a class have changed."""
        row = cache.slots[label, : cache.count[label]].sum(axis=0)
        self.total = self.total + (row - self.sums[label])
        self.sums[label], self.square[label] = row, row @ row

    def carried(self, places: Ints) -> ClassSums:
        """Return the sums of other classes."""
        sums, square = by_place(self.sums, places), by_place(self.square, places)
        gone = len(places[places >= 0]) < len(self.sums)
        return ClassSums(sums, sums.sum(axis=0) if gone else self.total.copy(), square)

    def evidence(self, query: Array, cache: ClassCache, inside: int | None) -> Floats:
        """Return the log-likelihood of an image under each class against that under a novel one, [K], a dimension.

        Classes are Gaussians of one width around means that are Gaussian themselves, seen from the mean of all slots
        and with the slots' own reliability ρ, the mean cosine of two images of a class; an empty class is novel.
        An image that sits `inside` a class's slots does not speak for itself. Costs two products with the sums.
        """
        count = cache.count.astype(np.float64)
        both = dots(self.sums, np.stack([query, self.total])).astype(np.float64)
        along, across = both[0], both[1]  # [K] of the class sums with the image, and with the total
        square = self.square.astype(np.float64)
        ahead = float(query @ self.total)
        if inside is not None:
            own = along[inside]
            across = across - along
            across[inside] += 1 - ahead
            square[inside] += 1 - 2 * own
            along[inside] -= 1
            count[inside] -= 1
            ahead -= 1
        number = float(count.sum()) + 10
        mean = float(across.sum()) / number**2  # |g|²
        rest = max(1 - mean, 1e-6)
        towards = along - count * (ahead / number) - across / number + count * mean
        towards /= np.sqrt(max(1 - 2 * ahead / number + mean, 1e-6) * rest)
        length = np.maximum(square - 2 * count * across / number + count * count * mean, 0) / rest
        say = 1 / (count + 1)
        rho = (float(say @ (length - count)) + 0.6) / (float(say @ (count * count - count)) + 2)
        rho = min(max(rho, 0.01), 0.9)
        precision = count * rho + 1 - rho
        gain, spread = rho / precision, 1 - rho + rho * (1 - rho) / precision
        value: Floats = 0.5 - 0.5 * (np.log(spread) + (1 - 2 * gain * towards + gain * gain * length) / spread)
        return value


def cosine_without(cache: ClassCache, rule: Centring, label: int, sample: int, query: Array) -> float | None:
    """Return the cosine of a query with the centre of its class's other slots; None if there are none."""
    held = cache.sample[label, : cache.count[label]] != sample
    rows = cache.slots[label, : cache.count[label]][held]
    if rule.text is not None:
        rows = np.concatenate([rows, rule.text[label][None]])
    if not len(rows):
        return None
    near = rows @ query
    weights = affinity(near, rule.sharpness) if rule.kind == "attention" else np.ones_like(near)
    centre = weights @ rows
    return float(weights @ near / max(np.sqrt(centre @ centre), np.float32(1e-12)))


class Referee(NamedTuple):
    """What the CLIP cache says of an image that is not in it."""

    cosine: Array  # [K] with the visual centres
    known: Bools  # [K] the classes that have samples
    full: Array  # [K] how far their slots are filled, from 0 to 1
    inliers: Bools  # [K] the classes in the hyper-classes nearest to the image


class Weights(NamedTuple):
    """How much each branch counts now."""

    zero_shot: float  # as a power
    css: float  # as a share of the probability, at most
    afv: float  # a power, too


@dataclass
class Trust:
    """What the stream has told of the branches so far."""

    power: Floats  # [2] of zero-shot and of the auxiliary evidence
    precision: Floats  # [2, 2] of these
    differed: float  # images of which the referee said otherwise than zero-shot ...
    judged: float  # ... out of so many
    last: Array  # [K] zero-shot of the image before
    mass: Array  # [K] sum of zero-shot probabilities
    followed: float  # by how much images resembled the one before more than all others ...
    pairs: float  # ... at most

    @classmethod
    def empty(cls, classes: int) -> Trust:
        """Make the trust of one who has seen nothing: in zero-shot alone."""
        nothing = np.zeros(classes, np.float32)
        return cls(np.array([1.0, 0.0]), np.diag(PRIOR), 0.0, PATIENCE, nothing, nothing.copy(), 0.0, PATIENCE)

    def carried(self, places: Ints) -> Trust:
        """Return the trust for other classes."""
        return replace(self, last=by_place(self.last, places), mass=by_place(self.mass, places))

    def validate(self) -> None:
        """Refuse what no stream can leave behind."""
        sound = np.linalg.eigvalsh(self.precision).min() > 0 and self.judged > 0 and self.pairs > 0
        if not (sound and self.power[0] > 0 and np.isfinite(self.power).all()):
            raise SnapshotError("the saved weights of the branches cannot be; the file is damaged.")

    def weights(self) -> Weights:
        """Return what each branch has earned; a stream whose images resemble the one before earns less."""
        (zero, _), (_, aux) = self.precision
        cross = self.precision[0, 1]
        doubt = np.sqrt(zero / (zero * aux - cross * cross))
        free = 1 - min(max(self.followed / self.pairs, 0.0), 1.0)
        earned = max(float(self.power[1] - CAUTION * doubt), 0.0)
        sure = earned / float(self.power[1]) if earned else 0.0
        apart = self.differed / self.judged
        css = apart * min(1.0, apart / APART) * (1 - sure / 2)  # where both caches speak, they share the say
        return Weights(float(self.power[0]), free * css, free * earned)

    def learn(self, zero_shot: Array, evidence: Floats | None, referee: Referee) -> None:
        """Let the referee judge zero-shot [K] and the auxiliary evidence [K] of one image."""
        self._follow(zero_shot)
        if np.count_nonzero(referee.known) < 2:
            return
        verdict = int(np.where(referee.known, referee.cosine, -np.inf).argmax())
        weight = float(zero_shot @ referee.full)  # who knows little of the likely classes has little say
        self.differed += weight * (verdict != int(zero_shot.argmax()))
        self.judged += weight
        looks = np.zeros((len(zero_shot), 2))
        looks[:, 0] = np.log(zero_shot + np.float32(1e-30))
        if evidence is not None:
            looks[:, 1] = evidence - evidence.mean()
        # One step of a logistic regression, by Newton's rule: the precision is that of all images so far.
        odds = np.exp(looks @ self.power - (looks @ self.power).max())
        odds /= odds.sum()
        mean = odds @ looks
        self.precision = self.precision + weight * ((looks * odds[:, None]).T @ looks - np.outer(mean, mean))
        self.power = self.power + np.linalg.solve(self.precision, weight * (looks[verdict] - mean))
        self.power[0] = max(self.power[0], LEAST)

    def _follow(self, zero_shot: Array) -> None:
        """Compare an image with the one before it, and with all before."""
        if self.last.any():
            usual = float(zero_shot @ (self.mass + 1)) / (float(self.mass.sum()) + len(self.mass))
            self.followed += float(zero_shot @ self.last) - usual
            self.pairs += 1 - usual
        self.last, self.mass = zero_shot.copy(), self.mass + zero_shot


def combine(zero_shot: Array, evidence: Floats | None, referee: Referee, weights: Weights, scale: float) -> Array:
    """Return the fused probabilities [K].

    The CLIP cache takes its share of zero-shot's probability, class by class as far as its slots are filled; the
    auxiliary evidence multiplies.
    """
    mixed = zero_shot
    inside = referee.known & referee.inliers
    inside = inside if inside.any() else referee.known
    if weights.css and inside.any():
        cache = np.zeros_like(zero_shot)
        cache[inside] = softmax(np.float32(scale) * referee.cosine[inside])
        cache *= np.float32(weights.css) * referee.full
        mixed = (1 - cache.sum()) * zero_shot + cache
    logits = weights.zero_shot * np.log(mixed.astype(np.float64) + 1e-30)
    if evidence is not None and weights.afv:
        logits += weights.afv * evidence
    return as_float32(softmax(as_float32(logits)))
