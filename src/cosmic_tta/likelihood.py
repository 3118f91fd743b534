"""How likely a sample is under each class, from what softly labelled samples add up to."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Ints, as_float32, by_place, unit
from cosmic_tta.tally import Tally, measure


@dataclass
class Likelihood:
    """What the classes of one space say: a sample x has the log-likelihood level + slope·(x·c_k).

    Sample and class sums c_k are seen from the running mean g. The sums S_k are not copied: c_k is S_k - n_k·g.
    """

    g: Array  # [D]
    level: Array  # [K]
    slope: Array  # [K]

    @classmethod
    def empty(cls, classes: int, dim: int) -> Likelihood:
        """Make one that says nothing."""
        return cls(np.zeros(dim, np.float32), np.zeros(classes, np.float32), np.zeros(classes, np.float32))

    def carried(self, places: Ints) -> Likelihood:
        """Return what is said of other classes."""
        return Likelihood(self.g.copy(), by_place(self.level, places), by_place(self.slope, places))

    def become(self, other: Likelihood) -> None:
        """Say what the other does."""
        self.g, self.level, self.slope = other.g, other.level, other.slope

    def add(self, rows: Array, sums: Array, mass: Array, trust: float, out: Array) -> None:
        """Add to out [B, K] what is said of standardised rows [B, D]; sums [K, D] and mass [K] are what it is of."""
        towards = unit(rows - self.g)
        along = towards @ self.g  # [B]
        level, slope = np.float32(trust) * self.level, np.float32(trust) * self.slope
        if COMPILED is None:
            out += level + slope * (towards @ sums.T - np.outer(along, mass))
        else:
            COMPILED.compare(sums, towards, along, level, slope, mass, out)


class Model(NamedTuple):
    """What is assumed of classes: in each space, Gaussians of one width around means that are Gaussian themselves."""

    sharpness: float  # effective dimensions of a space
    mean_prior: float  # samples' worth of shrinkage of the running mean
    balanced: bool  # whether pairs of a frequent class count less

    def evidence(
        self, x: Array, mass: Array, square: Array, sums: Array, total: Array, number: float
    ) -> tuple[Array, float]:
        """Return the log-likelihood of a sample [D] under each class [K], and the reliability ρ.

        Samples before it, with soft labels z: mass [K] is the sum of z, square [K] of z², sums [K, D] of z·x. With it
        counted in, `total` [D] is the sum of all x, and `number` how many they are.
        """
        g = self._mean(total, number)
        towards = unit(x - g)
        products, along, squares = measure(sums, towards, g)
        level, slope, rho = self._parts(mass, square, g, along, squares)
        return level + slope * (products - towards @ g * mass), rho

    def likelihood(self, tally: Tally, sums: Array, total: Array, number: float) -> Likelihood:
        """Return the same for any sample."""
        g = self._mean(total, number)
        _, along, squares = measure(sums, g, g)
        return Likelihood(g, *self._parts(tally.mass, tally.square, g, along, squares)[:2])

    def doubted(self, evidence: Array, doubt: float, trust: float) -> Array:
        """Mix evidence [K], trusted so much in all, with that of a novel class: whoever doubts a class forgets it."""
        if not doubt:
            return evidence
        novel = -0.5 * self.sharpness * trust
        return as_float32(np.logaddexp(log(1 - doubt) + evidence, log(doubt) + novel))

    def _mean(self, total: Array, number: float) -> Array:
        return total / np.float32(number + self.mean_prior)

    def _parts(self, mass: Array, square: Array, g: Array, along: Array, squares: Array) -> tuple[Array, Array, float]:
        """Return level, slope and reliability, from the products S_k·g and S_k·S_k.

        In what g leaves, a class with much mass is a narrow Gaussian around its mean, one without any a wide one
        around nothing: a novel class.
        """
        total = float(mass.sum())
        gg = float(g @ g)
        rest = np.float32(max(1 - gg, 1e-6))
        length = (squares - 2 * mass * along + mass * mass * np.float32(gg)) / rest  # [K] |c_k|²
        # Pairs of a frequent class count less, or the largest class alone would say how tight classes are.
        say = 1 / (mass + 1) if self.balanced else np.ones_like(mass)  # [K]
        few = float(say @ mass) / max(total, 1e-9) if total else 1.0
        within = float(say @ (length - square)) + 6 * few
        pairs = float(say @ (mass * mass - square)) + 20 * few
        rho = np.float32(min(max(1.1 * within / pairs, 0.01), 0.9))
        precision = mass * rho + 1 - rho
        gain = rho / precision
        spread = 1 - rho + rho * (1 - rho) / precision
        level = -0.5 * self.sharpness * (np.log(spread) + (1 + gain * gain * length) / spread)
        slope = self.sharpness * gain / (spread * np.sqrt(rest))
        return level, slope, float(rho)
