"""Losses with their gradients by hand, and the two ways down them: SGD with momentum, and AdamW.

A gradient ends at the class texts; the text tower pulls it further back. So what learns needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import cos, pi

import numpy as np

from cosmic_tta.ops import Array, Ints, as_float32, softmax

TINY = np.float32(1e-30)
Weights = dict[str, Array]


def mean_entropy(logits: Array) -> tuple[float, Array]:
    """Return the entropy of the mean prediction of some views [n, K], and its gradient by their logits [n, K]."""
    rows = softmax(logits)
    mean = np.maximum(rows.mean(axis=0), TINY)
    by_mean = -(np.log(mean) + 1) / np.float32(len(rows))  # [K]
    gradient = rows * (by_mean - (rows @ by_mean)[:, None])
    return float(-(mean * np.log(mean)).sum()), as_float32(gradient)


def cross_entropy(logits: Array, labels: Ints) -> tuple[float, Array]:
    """Return the mean cross-entropy of logits [n, K] with labels [n], and its gradient [n, K]."""
    rows, places = softmax(logits), np.arange(len(labels))
    loss = float(-np.log(np.maximum(rows[places, labels], TINY)).mean())
    rows[places, labels] -= 1
    return loss, as_float32(rows / np.float32(len(labels)))


@dataclass
class Sgd:
    """Stochastic gradient descent with momentum and weight decay."""

    momentum: float = 0.9
    decay: float = 5e-4
    velocity: Weights = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Mapping[str, Array], rate: float) -> Weights:
        """Return the weights one step further."""
        moved = {}
        for name, weight in weights.items():
            gradient = gradients[name] + np.float32(self.decay) * weight
            before = self.velocity.get(name)
            speed = gradient if before is None else np.float32(self.momentum) * before + gradient
            self.velocity[name] = as_float32(speed)
            moved[name] = as_float32(weight - np.float32(rate) * speed)
        return moved

    def arrays(self) -> Weights:
        """Return what it remembers, to go on from later."""
        return {f"velocity.{name}": value for name, value in self.velocity.items()}

    def resume(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` gave."""
        self.velocity = {name.removeprefix("velocity."): value for name, value in arrays.items()}


@dataclass
class AdamW:
    """Adam with decoupled weight decay (I. Loshchilov, F. Hutter, ICLR 2019)."""

    decay: float = 0.01
    epsilon: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.999)
    count: int = 0
    mean: Weights = field(default_factory=dict)
    square: Weights = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Mapping[str, Array], rate: float) -> Weights:
        """Return the weights one step further."""
        self.count += 1
        (one, two), moved = self.betas, {}
        for name, weight in weights.items():
            gradient, zero = gradients[name], np.zeros_like(weight)
            mean = as_float32(one * self.mean.get(name, zero) + (1 - one) * gradient)
            square = as_float32(two * self.square.get(name, zero) + (1 - two) * gradient**2)
            self.mean[name], self.square[name] = mean, square
            size = np.sqrt(square / (1 - two**self.count)) + self.epsilon
            moved[name] = as_float32(weight * (1 - rate * self.decay) - rate * (mean / (1 - one**self.count)) / size)
        return moved

    def arrays(self) -> Weights:
        """Return what it remembers, to go on from later."""
        named = {f"mean.{name}": value for name, value in self.mean.items()}
        named |= {f"square.{name}": value for name, value in self.square.items()}
        return named | {"count": np.array([self.count], np.float32)}

    def resume(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` gave."""
        self.count = int(arrays["count"][0])
        for kept, prefix in ((self.mean, "mean."), (self.square, "square.")):
            kept.update({k.removeprefix(prefix): value for k, value in arrays.items() if k.startswith(prefix)})


def cosine_rate(rate: float, done: float) -> float:
    """Return the rate of a cosine schedule when a share of the way is done.

    >>> cosine_rate(1.0, 0.0), round(cosine_rate(1.0, 0.5), 3), round(cosine_rate(1.0, 1.0), 3)
    (1.0, 0.5, 0.0)
    """
    return rate * (1 + cos(pi * done)) / 2
