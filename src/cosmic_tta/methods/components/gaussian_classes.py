"""Gaussian class models: the log-likelihood of a sample under each class, from sums of the samples before it.

In each space, classes are Gaussians of one width around means that are Gaussian themselves. Samples are seen from their
overall mean. The reliability ρ is the mean cosine of two samples of one class.

`GaussianClassModel` reads soft counts in float32; `CacheClassSums` reads the slots of a cache in float64 and can leave
one sample out. Both use `posterior_spread`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints, as_float32, dots, take_classes, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.components.class_statistics import ClassStatistics, class_products

Floats = NDArray[np.float64]

MIN_RELIABILITY, MAX_RELIABILITY = 0.01, 0.9


def clip_reliability(reliability: float) -> float:
    """Return a reliability ρ within its bounds."""
    return min(max(reliability, MIN_RELIABILITY), MAX_RELIABILITY)


def posterior_spread(count: NDArray[Any], reliability: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the gain and the spread of each class, [K], in the precision of the counts [K].

    The posterior mean of a class is its gain times the sum of its samples. A sample of the class has the variance
    `spread` around it. A class without samples has a gain on nothing and the spread of a novel class, 1.
    """
    precision = count * reliability + 1 - reliability
    gain = reliability / precision
    return gain, 1 - reliability + reliability * (1 - reliability) / precision


@dataclass
class LinearLogLikelihood:
    """The log-likelihoods of one space as a linear function: level + slope·(x·c_k) for a sample x.

    Samples and class sums c_k are seen from the running mean g. The sums S_k are not copied: c_k is S_k - n_k·g.
    """

    g: Array  # [D]
    level: Array  # [K]
    slope: Array  # [K]

    @classmethod
    def empty(cls, classes: int, dim: int) -> LinearLogLikelihood:
        """Make a function that is zero everywhere."""
        return cls(np.zeros(dim, np.float32), np.zeros(classes, np.float32), np.zeros(classes, np.float32))

    def remapped(self, class_map: Ints) -> LinearLogLikelihood:
        """Return the function for other classes."""
        return LinearLogLikelihood(
            self.g.copy(), take_classes(self.level, class_map), take_classes(self.slope, class_map)
        )

    def copy_from(self, other: LinearLogLikelihood) -> None:
        """Become the same function as another one."""
        self.g, self.level, self.slope = other.g, other.level, other.slope

    def add(self, rows: Array, sums: Array, soft_count: Array, weight: float, out: Array) -> None:
        """Add the weighted log-likelihoods of standardised rows [B, D] to out [B, K].

        `sums` [K, D] and `soft_count` [K] are those that the function was made of.
        """
        centred = unit(rows - self.g)
        along = centred @ self.g  # [B]
        level, slope = np.float32(weight) * self.level, np.float32(weight) * self.slope
        if COMPILED is None:
            out += level + slope * (centred @ sums.T - np.outer(along, soft_count))
        else:
            COMPILED.add_log_likelihood(sums, centred, along, level, slope, soft_count, out)


class GaussianClassModel(NamedTuple):
    """The class model over softly labelled samples."""

    sharpness: float  # effective dimensions of a space
    mean_prior: float  # samples' worth of shrinkage of the running mean
    balanced: bool  # whether pairs of a frequent class count less

    def log_likelihood(
        self, x: Array, soft_count: Array, square: Array, sums: Array, total: Array, number: float
    ) -> tuple[Array, float]:
        """Return the log-likelihood of a sample under each class, [K], and the reliability ρ.

        Args:
            x: The sample, [D].
            soft_count: Sum of the soft labels z of the samples before it, [K].
            square: Sum of z², [K].
            sums: Sum of z·x, [K, D].
            total: Sum of all x, with the sample itself, [D].
            number: Of all samples, with the sample itself.
        """
        g = self._mean(total, number)
        centred = unit(x - g)
        products, along, squares = class_products(sums, centred, g)
        level, slope, reliability = self._coefficients(soft_count, square, g, along, squares)
        return level + slope * (products - centred @ g * soft_count), reliability

    def linear(self, statistics: ClassStatistics, sums: Array, total: Array, number: float) -> LinearLogLikelihood:
        """Return the log-likelihood as a function of any sample."""
        g = self._mean(total, number)
        _, along, squares = class_products(sums, g, g)
        level, slope, _ = self._coefficients(statistics.soft_count, statistics.square, g, along, squares)
        return LinearLogLikelihood(g, level, slope)

    def mix_with_novel_class(self, log_likelihood: Array, novel_share: float, weight: float) -> Array:
        """Mix log-likelihoods [K], weighted in all by `weight`, with that of a novel class of a prior share."""
        if not novel_share:
            return log_likelihood
        novel = -0.5 * self.sharpness * weight
        return as_float32(np.logaddexp(log(1 - novel_share) + log_likelihood, log(novel_share) + novel))

    def _mean(self, total: Array, number: float) -> Array:
        return total / np.float32(number + self.mean_prior)

    def _coefficients(
        self, soft_count: Array, square: Array, g: Array, along: Array, squares: Array
    ) -> tuple[Array, Array, float]:
        """Return level, slope and reliability, from the products S_k·g and S_k·S_k."""
        total = float(soft_count.sum())
        gg = float(g @ g)
        rest = np.float32(max(1 - gg, 1e-6))
        length = (squares - 2 * soft_count * along + soft_count * soft_count * np.float32(gg)) / rest  # [K] |c_k|²
        # Otherwise the largest class alone would determine the reliability.
        weight = 1 / (soft_count + 1) if self.balanced else np.ones_like(soft_count)  # [K]
        prior = float(weight @ soft_count) / max(total, 1e-9) if total else 1.0
        within = float(weight @ (length - square)) + 6 * prior
        pairs = float(weight @ (soft_count * soft_count - square)) + 20 * prior
        reliability = np.float32(clip_reliability(1.1 * within / pairs))
        gain, spread = posterior_spread(soft_count, reliability)
        level = -0.5 * self.sharpness * (np.log(spread) + (1 + gain * gain * length) / spread)
        slope = self.sharpness * gain / (spread * np.sqrt(rest))
        return level, slope, float(reliability)


@dataclass
class CacheClassSums:
    """The class model over the slots of a cache: the sum of each class's slots."""

    sums: Array  # [K, D]
    total: Array  # [D] the sum of all slots
    square: Array  # [K] squared lengths of the sums

    @classmethod
    def empty(cls, classes: int, dim: int) -> CacheClassSums:
        """Make the sums of an empty cache."""
        return cls(np.zeros((classes, dim), np.float32), np.zeros(dim, np.float32), np.zeros(classes, np.float32))

    def update(self, cache: ClassCache, label: int) -> None:
        """Compute the sums of a class whose slots have changed."""
        row = cache.slots[label, : cache.count[label]].sum(axis=0)
        self.total = self.total + (row - self.sums[label])
        self.sums[label], self.square[label] = row, row @ row

    def remapped(self, class_map: Ints) -> CacheClassSums:
        """Return the sums of other classes."""
        sums, square = take_classes(self.sums, class_map), take_classes(self.square, class_map)
        removed = len(class_map[class_map >= 0]) < len(self.sums)
        return CacheClassSums(sums, sums.sum(axis=0) if removed else self.total.copy(), square)

    def log_likelihood(self, query: Array, cache: ClassCache, own: int | None) -> Floats:
        """Return the log-likelihood ratio of an image under each class to a novel class, per dimension, [K].

        Args:
            query: The image, [D].
            cache: The cache of these sums.
            own: The class whose slots hold the image; it is left out of the model. None: no slot holds it.
        """
        count = cache.count.astype(np.float64)
        products = dots(self.sums, np.stack([query, self.total])).astype(np.float64)
        along, across = products[0], products[1]  # [K] of the class sums with the image, and with the total
        square = self.square.astype(np.float64)
        ahead = float(query @ self.total)
        if own is not None:
            itself = along[own]
            across = across - along
            across[own] += 1 - ahead
            square[own] += 1 - 2 * itself
            along[own] -= 1
            count[own] -= 1
            ahead -= 1
        number = float(count.sum()) + 10
        mean = float(across.sum()) / number**2  # |g|²
        rest = max(1 - mean, 1e-6)
        centred = along - count * (ahead / number) - across / number + count * mean
        centred /= np.sqrt(max(1 - 2 * ahead / number + mean, 1e-6) * rest)
        length = np.maximum(square - 2 * count * across / number + count * count * mean, 0) / rest
        weight = 1 / (count + 1)
        reliability = clip_reliability(
            (float(weight @ (length - count)) + 0.6) / (float(weight @ (count * count - count)) + 2)
        )
        gain, spread = posterior_spread(count, reliability)
        value: Floats = 0.5 - 0.5 * (np.log(spread) + (1 - 2 * gain * centred + gain * gain * length) / spread)
        return value
