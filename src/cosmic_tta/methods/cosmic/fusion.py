"""Fusion of COSMIC's branches: by fixed weights, or by weights learned from the stream without labels.

The learned weights begin at zero-shot alone. The CLIP cache's answer for an image that is not in it serves as the
target: zero-shot and the auxiliary space are weighted by how well they predict it together. The CLIP cache itself is
weighted by how often it disagrees with zero-shot.
`docs/research/fusion.md` describes the rule and its constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, affinity, as_float32, softmax, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.components.class_cache import ClassCache
from numpy.typing import NDArray
Floats = NDArray[np.float64]
from cosmic_tta.methods.components.prototypes import PrototypeConfig
from cosmic_tta.methods.cosmic.branch import BranchResult
from cosmic_tta.methods.cosmic.feature_space import GraphSpace

PRIOR_PRECISION = (4.0, 0.01)  # of the exponents before the first image: zero-shot's is 1 ± 0.5, AFV's 0 ± 10
AFV_MARGIN = 1.0  # standard deviations by which AFV's weight stays below its estimate
PRIOR_IMAGES = 20.0  # images' worth of agreement, and of independence, before the first image
FULL_DISAGREEMENT = 0.15  # share of disagreements from which the CLIP cache has its full weight
MIN_ZERO_SHOT_EXPONENT = 0.2


class FusedScores(NamedTuple):
    """The fused prediction."""

    css: Array  # [K] the mean of each class's two CSS nodes
    scores: Array  # [K] they sum to one
    label: int


def fuse(zero_shot: Array, css: Array, afv: Array | None, weights: tuple[float, float, float]) -> FusedScores:
    """Return the weighted sum of zero-shot [K], CSS [2K] and AFV [K]; zero-shot if the sum is zero."""
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


class CachePrediction(NamedTuple):
    """The CLIP cache's answer for an image, with the image itself left out of the cache."""

    cosine: Array  # [K] with the visual prototypes
    has_samples: Bools  # [K]
    fill: Array  # [K] share of the slots that are filled
    inliers: Bools  # [K] classes in the hyper-classes nearest to the image

    @classmethod
    def of_branch(cls, space: GraphSpace, css: BranchResult, query: Array, sample: int | None) -> CachePrediction:
        """Make the answer of the CLIP space for a query; `sample` is its position in the stream if it was learned."""
        cache, prototypes, cosine = space.memory.cache, space.config.prototypes, css.prototype_cosine
        assert cosine is not None  # because fused steps have fixed weights
        count, own = cache.count, None if sample is None else cache.class_of_sample(sample)
        if own is not None and sample is not None:
            other = cosine_without(cache, prototypes, own, sample, query)
            count, cosine = count.copy(), cosine.copy()
            count[own] -= 1
            cosine[own] = 0 if other is None else other
        has_samples = count > 0 if prototypes.text is None else np.ones(len(count), bool)
        return cls(cosine, has_samples, as_float32(count / cache.shots), css.nearest.inliers[len(count) :])


def cosine_without(
    cache: ClassCache, prototypes: PrototypeConfig, label: int, sample: int, query: Array
) -> float | None:
    """Return the cosine of a query with its class's prototype without one sample; None if no other is left."""
    others = cache.sample[label, : cache.count[label]] != sample
    rows = cache.slots[label, : cache.count[label]][others]
    if prototypes.text is not None:
        rows = np.concatenate([rows, prototypes.text[label][None]])
    if not len(rows):
        return None
    products = rows @ query
    weights = affinity(products, prototypes.sharpness) if prototypes.kind == "attention" else np.ones_like(products)
    centre = weights @ rows
    return float(weights @ products / max(np.sqrt(centre @ centre), np.float32(1e-12)))


class BranchWeights(NamedTuple):
    """The current weight of each branch."""

    zero_shot: float  # exponent of its probabilities
    css: float  # the largest share of the probability that the CLIP cache takes
    afv: float  # exponent of its likelihoods


@dataclass
class BranchWeightLearner:
    """The weights of the branches, learned from the stream."""

    exponents: Floats  # [2] of zero-shot and of AFV
    precision: Floats  # [2, 2] of the exponents
    disagreements: float  # weighted count of images whose cache answer differs from zero-shot
    comparisons: float  # weighted count of images compared
    last_zero_shot: Array  # [K] of the image before
    zero_shot_sum: Array  # [K] over all images
    repetition: float  # how much more images resemble the one before than an average one, summed
    max_repetition: float  # the largest value that the sum could have

    @classmethod
    def empty(cls, classes: int) -> BranchWeightLearner:
        """Make the weights before the first image: zero-shot alone."""
        nothing = np.zeros(classes, np.float32)
        exponents, precision = np.array([1.0, 0.0]), np.diag(PRIOR_PRECISION)
        return cls(exponents, precision, 0.0, PRIOR_IMAGES, nothing, nothing.copy(), 0.0, PRIOR_IMAGES)

    def remapped(self, class_map: Ints) -> BranchWeightLearner:
        """Return the weights for other classes."""
        last, total = take_classes(self.last_zero_shot, class_map), take_classes(self.zero_shot_sum, class_map)
        return replace(self, last_zero_shot=last, zero_shot_sum=total)

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind."""
        positive = np.linalg.eigvalsh(self.precision).min() > 0 and self.comparisons > 0 and self.max_repetition > 0
        if not (positive and self.exponents[0] > 0 and np.isfinite(self.exponents).all()):
            raise SnapshotError("the saved weights of the branches are impossible; the file is damaged.")

    def weights(self) -> BranchWeights:
        """Return the current weights. They are lower in a stream whose images resemble the one before."""
        (zero, _), (_, aux) = self.precision
        cross = self.precision[0, 1]
        deviation = np.sqrt(zero / (zero * aux - cross * cross))  # of AFV's exponent
        independence = 1 - min(max(self.repetition / self.max_repetition, 0.0), 1.0)
        afv = max(float(self.exponents[1] - AFV_MARGIN * deviation), 0.0)
        afv_certainty = afv / float(self.exponents[1]) if afv else 0.0
        disagreement = self.disagreements / self.comparisons
        # The caches of both spaces share their influence.
        css = disagreement * min(1.0, disagreement / FULL_DISAGREEMENT) * (1 - afv_certainty / 2)
        return BranchWeights(float(self.exponents[0]), independence * css, independence * afv)

    def learn(self, zero_shot: Array, likelihood: Floats | None, cache: CachePrediction) -> None:
        """Learn from one image: its zero-shot [K], its AFV log-likelihood [K] and the cache's answer as the target."""
        self._learn_repetition(zero_shot)
        if np.count_nonzero(cache.has_samples) < 2:
            return
        target = int(np.where(cache.has_samples, cache.cosine, -np.inf).argmax())
        weight = float(zero_shot @ cache.fill)  # the less filled the likely classes are, the less the target counts
        self.disagreements += weight * (target != int(zero_shot.argmax()))
        self.comparisons += weight
        features = np.zeros((len(zero_shot), 2))
        features[:, 0] = np.log(zero_shot + np.float32(1e-30))
        if likelihood is not None:
            features[:, 1] = likelihood - likelihood.mean()
        # One Newton step of a logistic regression; the precision accumulates over all images.
        odds = np.exp(features @ self.exponents - (features @ self.exponents).max())
        odds /= odds.sum()
        mean = odds @ features
        self.precision = self.precision + weight * ((features * odds[:, None]).T @ features - np.outer(mean, mean))
        self.exponents = self.exponents + np.linalg.solve(self.precision, weight * (features[target] - mean))
        self.exponents[0] = max(self.exponents[0], MIN_ZERO_SHOT_EXPONENT)

    def _learn_repetition(self, zero_shot: Array) -> None:
        """Compare an image with the one before it, and with the average of all before."""
        total = self.zero_shot_sum
        if self.last_zero_shot.any():
            average = float(zero_shot @ (total + 1)) / (float(total.sum()) + len(total))
            self.repetition += float(zero_shot @ self.last_zero_shot) - average
            self.max_repetition += 1 - average
        self.last_zero_shot, self.zero_shot_sum = zero_shot.copy(), total + zero_shot


def fuse_learned(
    learner: BranchWeightLearner, zero_shot: Array, css: Array, likelihood: Floats | None, cache: CachePrediction,
    logit_scale: float, *, learn: bool,
) -> FusedScores:  # fmt: skip
    """Fuse the branches by learned weights; with `learn`, the weights learn from the image first."""
    if learn:
        learner.learn(zero_shot, likelihood, cache)
    scores = combine(zero_shot, likelihood, cache, learner.weights(), logit_scale)
    return FusedScores(_class_means(css), scores, int(scores.argmax()))


def combine(
    zero_shot: Array, likelihood: Floats | None, cache: CachePrediction, weights: BranchWeights, logit_scale: float
) -> Array:
    """Return the fused probabilities, [K].

    The CLIP cache takes a share of zero-shot's probability, in proportion to how far each class's slots are filled. The
    AFV likelihood multiplies.
    """
    mixed = zero_shot
    inliers = cache.has_samples & cache.inliers
    inliers = inliers if inliers.any() else cache.has_samples
    if weights.css and inliers.any():
        share = np.zeros_like(zero_shot)
        share[inliers] = softmax(np.float32(logit_scale) * cache.cosine[inliers])
        share *= np.float32(weights.css) * cache.fill
        mixed = (1 - share.sum()) * zero_shot + share
    logits = weights.zero_shot * np.log(mixed.astype(np.float64) + 1e-30)
    if likelihood is not None and weights.afv:
        logits += weights.afv * likelihood
    return as_float32(softmax(as_float32(logits)))
