"""Fusion of COSMIC's branches: a weighted sum, with a weight of the auxiliary branch that it must earn.

The auxiliary encoder may know nothing of the classes. So its branch is weighted by how well it agrees with CLIP on
samples that it has not seen, relative to how well CLIP's own two branches agree. Agreement by chance does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.kernel import COMPILED

PRIOR_SAMPLES = 10.0  # samples on which both agreed fully before the first one


class FusedScores(NamedTuple):
    """The fused prediction."""

    css: Array  # [K] the mean of each class's two CSS nodes
    scores: Array  # [K] they sum to one
    label: int


def fuse(zero_shot: Array, css: Array, afv: Array | None, weights: tuple[float, float, float]) -> FusedScores:
    """Return the weighted sum of zero-shot [K], CSS [2K] and AFV [K]; zero-shot if the sum is zero.

    Compiled: kernel/cosmic/fusion.c.
    """
    if COMPILED is not None:
        classes, scores = np.empty_like(zero_shot), np.empty_like(zero_shot)
        return FusedScores(classes, scores, COMPILED.fuse_branches(zero_shot, css, afv, *weights, classes, scores))
    classes = _class_means(css)
    mixed = np.float32(weights[0]) * zero_shot + np.float32(weights[1]) * classes
    if afv is not None:
        mixed = mixed + np.float32(weights[2]) * afv
    total = mixed.sum()
    scores = zero_shot if total == 0 else mixed / total
    return FusedScores(classes, scores, int(scores.argmax()))


def _class_means(css: Array) -> Array:
    """Return the mean of each class's two CSS nodes, [K]."""
    classes = len(css) // 2
    return (css[:classes] + css[classes:]) / np.float32(2)


@dataclass
class AuxTrust:
    """How far the auxiliary branch is trusted: sums over the samples before."""

    probabilities: Array  # [4, K] sums of zero-shot, of the CLIP cache, of both together and of the auxiliary space
    clip_agreement: float  # sum of the probability that zero-shot and the CLIP cache name the same class
    aux_agreement: float  # the same for the auxiliary space and CLIP
    number: int

    @classmethod
    def empty(cls, classes: int) -> AuxTrust:
        """Begin before the first sample."""
        return cls(np.zeros((4, classes), np.float32), 0.0, 0.0, 0)

    def validate(self) -> None:
        """Refuse sums that no stream can leave behind."""
        sums = np.array([self.clip_agreement, self.aux_agreement, self.number])
        if not (np.isfinite(sums).all() and (sums >= 0).all()):
            raise SnapshotError("the saved agreement of the branches is impossible; the file is damaged.")

    def remapped(self, class_map: Ints) -> AuxTrust:
        """Return the sums for other classes."""
        rows = np.ascontiguousarray(take_classes(self.probabilities.T, class_map).T)
        return AuxTrust(rows, self.clip_agreement, self.aux_agreement, self.number)

    def learn(self, zero_shot: Array, clip_cache: Array, aux: Array) -> None:
        """Compare the branches on a sample that the auxiliary space has not seen; each is [K] and sums to one."""
        clip = (zero_shot + clip_cache) / np.float32(2)
        self.probabilities += np.stack([zero_shot, clip_cache, clip, aux])
        self.clip_agreement += float(zero_shot @ clip_cache)
        self.aux_agreement += float(aux @ clip)
        self.number += 1

    def value(self) -> float:
        """Return the trust, from 0 to 1."""
        number = max(self.number, 1)
        zero_shot, clip_cache, clip, aux = self.probabilities
        beyond_chance = self.aux_agreement - float(aux @ clip) / number
        possible = self.clip_agreement - float(zero_shot @ clip_cache) / number
        return min(max((beyond_chance + PRIOR_SAMPLES) / max(possible + PRIOR_SAMPLES, 1e-9), 0.0), 1.0)
