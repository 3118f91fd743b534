"""What a step leaves behind, so that its prediction can be explained long after the caches have changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosmic_tta.core import Task
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.hyperclass import HyperClasses, Nearest
from cosmic_tta.ops import Array, Ints, affinity, dots
from cosmic_tta.space import Space


class Branch(NamedTuple):
    """What one space says of one image, node by node, and how it came to it."""

    scores: Array  # [n]
    hyper: HyperClasses
    nearest: Nearest
    near: Array | None  # [K, L] products of the slots with the image, where they were looked up
    cosine: Array | None = None  # [K] of the visual centres with the image, where the branches earn their weights

    def account(self, space: Space, query: Array, answer: int) -> Account:
        """Keep what an explanation needs: the votes of the answer's slots are counted now, all else is frozen."""
        cache = space.memory.cache
        if self.near is not None:
            return Account(self.hyper, self.nearest, cache.sample[answer].copy(), self.near[answer].copy())
        near = dots(cache.slots[answer, : cache.count[answer]], query[None])[0]
        return Account(self.hyper, self.nearest, cache.sample[answer, : len(near)].copy(), near)


class Account(NamedTuple):
    """One space's part of an explanation."""

    hyper: HyperClasses
    nearest: Nearest | tuple[bytes, int, bytes]  # or as the kernel gives it back: affinities, how many, inliers
    samples: Ints  # [l] in the slots of the answer
    near: Array  # [l] their products with the image


def explain(task: Task, answer: int, sharpness: float, accounts: dict[str, Account]) -> Explanation:
    """Say which hyper-classes, inliers and samples spoke for the answer, space by space."""
    names = task.class_names
    node_names = {"afv": names, "css": [f"{n} (text)" for n in names] + [f"{n} (images)" for n in names]}
    told = Explanation()
    for name, (hyper, nearest, samples, near) in accounts.items():
        if not isinstance(nearest, Nearest):
            nearest = Nearest.read(*nearest)
        inside = nearest.inliers.reshape(-1, task.classes).any(axis=0)  # [K]
        told.hyper_classes[name] = hyper.describe(nearest, node_names[name])
        told.complete[name] = hyper.complete
        told.inliers[name] = tuple(names[k] for k in np.flatnonzero(inside))
        told.votes[name] = votes(names[answer], samples, affinity(near, sharpness))
    return told
