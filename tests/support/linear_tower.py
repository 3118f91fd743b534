from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosmic_tta import Support, Task
from cosmic_tta.core.arrays import Array, unit
from cosmic_tta.core.errors import InputError


class LinearTower:
    """A tower of one linear map, with its gradient by hand: no torch is needed to try the methods."""

    width, dim, fingerprint = 6, 5, "line"

    def __init__(self, classes: int = 3, limit: int = 8) -> None:
        self.class_names, self.limit, self.calls = tuple(f"class {k}" for k in range(classes)), limit, 0
        random = np.random.default_rng(0)
        self.maps = random.standard_normal((classes, self.width, self.dim)).astype(np.float32)
        self.shift = random.standard_normal((classes, self.dim)).astype(np.float32)

    def opening(self, words: str) -> Array:
        return np.stack([np.full(self.width, len(word) / 10, np.float32) for word in words.split()])

    def with_classes(self, class_names: tuple[str, ...]) -> LinearTower:
        other = LinearTower(len(class_names))
        other.class_names = class_names
        return other

    def require(self, tokens: int) -> None:
        if tokens > self.limit:
            raise InputError("too long")

    def texts(self, context: Array) -> Array:
        rows = np.einsum("...w,kwd->...kd", context.mean(axis=-2), self.maps) + self.shift
        return unit(rows.astype(np.float32))

    def differentiate(self, context: Array) -> tuple[Array, Callable[[Array], Array]]:
        self.calls += 1
        texts, tokens = self.texts(context), context.shape[-2]
        rows = np.einsum("...w,kwd->...kd", context.mean(axis=-2), self.maps) + self.shift
        length = np.linalg.norm(rows, axis=-1, keepdims=True)

        def pull(gradient: Array) -> Array:
            by_rows = (gradient - texts * (texts * gradient).sum(axis=-1, keepdims=True)) / length
            by_mean = np.einsum("...kd,kwd->...w", by_rows, self.maps) / tokens
            return np.repeat(by_mean[..., None, :], tokens, axis=-2).astype(np.float32)

        return texts, pull


def linear_task(tower: LinearTower) -> Task:
    return Task(tower.class_names, tower.texts(tower.opening("a photo of a")), 10.0, tower=tower)


def few_shots(task: Task, each: int = 4, noise: float = 0.4) -> Support:
    random = np.random.default_rng(1)
    labels = np.repeat(np.arange(task.classes), each)
    moved = task.text + 0.6 * random.standard_normal((task.classes, task.dim))
    features = moved[labels] + noise * random.standard_normal((len(labels), task.dim))
    return Support(unit(features.astype(np.float32)), labels, task.class_names)
