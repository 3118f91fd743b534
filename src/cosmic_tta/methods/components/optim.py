"""Losses with their gradients, and two optimisers: SGD with momentum, and AdamW.

Gradients are computed down to the class texts. A text tower continues them to the context, so that this module
needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import cos, pi

import numpy as np

from cosmic_tta.core.arrays import TINY, Array, Ints, as_float32, softmax

Parameters = dict[str, Array]


def mean_entropy(logits: Array) -> tuple[float, Array]:
    """Return the entropy of the mean prediction of views, and its gradient by their logits [n, K]."""
    rows = softmax(logits)
    mean = np.maximum(rows.mean(axis=0), TINY)
    by_mean = -(np.log(mean) + 1) / np.float32(len(rows))  # [K]
    gradient = rows * (by_mean - (rows @ by_mean)[:, None])
    return float(-(mean * np.log(mean)).sum()), as_float32(gradient)


def cross_entropy(logits: Array, labels: Ints) -> tuple[float, Array]:
    """Return the mean cross-entropy of logits [n, K] with labels [n], and its gradient [n, K]."""
    rows, index = softmax(logits), np.arange(len(labels))
    loss = float(-np.log(np.maximum(rows[index, labels], TINY)).mean())
    rows[index, labels] -= 1
    return loss, as_float32(rows / np.float32(len(labels)))


@dataclass
class Sgd:
    """Stochastic gradient descent with momentum and weight decay."""

    momentum: float = 0.9
    decay: float = 5e-4
    velocity: Parameters = field(default_factory=dict)

    def step(self, weights: Parameters, gradients: Mapping[str, Array], rate: float) -> Parameters:
        """Return the weights after one step."""
        stepped = {}
        for name, weight in weights.items():
            gradient = gradients[name] + np.float32(self.decay) * weight
            previous = self.velocity.get(name)
            velocity = gradient if previous is None else np.float32(self.momentum) * previous + gradient
            self.velocity[name] = as_float32(velocity)
            stepped[name] = as_float32(weight - np.float32(rate) * velocity)
        return stepped

    def arrays(self) -> Parameters:
        """Return the optimiser's state as named arrays, for `resume`."""
        return {f"velocity.{name}": value for name, value in self.velocity.items()}

    def resume(self, arrays: Mapping[str, Array]) -> None:
        """Restore the state that `arrays` returned."""
        self.velocity = {name.removeprefix("velocity."): value for name, value in arrays.items()}


@dataclass
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019)."""

    decay: float = 0.01
    epsilon: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.999)
    count: int = 0
    mean: Parameters = field(default_factory=dict)
    square: Parameters = field(default_factory=dict)

    def step(self, weights: Parameters, gradients: Mapping[str, Array], rate: float) -> Parameters:
        """Return the weights after one step."""
        self.count += 1
        (beta1, beta2), stepped = self.betas, {}
        for name, weight in weights.items():
            gradient, zero = gradients[name], np.zeros_like(weight)
            mean = as_float32(beta1 * self.mean.get(name, zero) + (1 - beta1) * gradient)
            square = as_float32(beta2 * self.square.get(name, zero) + (1 - beta2) * gradient**2)
            self.mean[name], self.square[name] = mean, square
            size = np.sqrt(square / (1 - beta2**self.count)) + self.epsilon
            stepped[name] = as_float32(
                weight * (1 - rate * self.decay) - rate * (mean / (1 - beta1**self.count)) / size
            )
        return stepped

    def arrays(self) -> Parameters:
        """Return the optimiser's state as named arrays, for `resume`."""
        named = {f"mean.{name}": value for name, value in self.mean.items()}
        named |= {f"square.{name}": value for name, value in self.square.items()}
        return named | {"count": np.array([self.count], np.float32)}

    def resume(self, arrays: Mapping[str, Array]) -> None:
        """Restore the state that `arrays` returned."""
        self.count = int(arrays["count"][0])
        for kept, prefix in ((self.mean, "mean."), (self.square, "square.")):
            kept.update({k.removeprefix(prefix): value for k, value in arrays.items() if k.startswith(prefix)})


def cosine_rate(rate: float, done: float) -> float:
    """Return the learning rate of a cosine schedule after a share of the steps.

    Examples:
        >>> cosine_rate(1.0, 0.0), round(cosine_rate(1.0, 0.5), 3), round(cosine_rate(1.0, 1.0), 3)
        (1.0, 0.5, 0.0)
    """
    return rate * (1 + cos(pi * done)) / 2
