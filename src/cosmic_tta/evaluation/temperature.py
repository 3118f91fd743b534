"""A temperature for the scores of a run, fitted without labels. It changes no prediction.

Scores are calibrated when their mean confidence equals their accuracy. The accuracy is estimated without labels. All
images of the stream are labelled jointly by a Gaussian class model in every feature space, with zero-shot as the
prior. The mean probability that this model gives to the run's predictions is the estimate.
The calibration error is in `metrics.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints, as_float32, softmax
from cosmic_tta.evaluation.metrics import Floats
from cosmic_tta.evaluation.streams.stream import EvaluationStream
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.components.class_balance import log_share_excess
from cosmic_tta.methods.components.gaussian_classes import ClassModel, GaussianParameters, linear, log_likelihood

MAX_IMAGES = 4096  # that are labelled jointly; of more images, a random subset is
SHARPNESS, MEAN_PRIOR, VARIANCE_PRIOR = 10, 10, 20  # of the class model: see `GaussianParameters`
# Below MIN_DIRECTIONS within-class directions no temperature is fitted; from FULL_DIRECTIONS on it is used in full.
MIN_DIRECTIONS, FULL_DIRECTIONS = 20, 50
TRUST_PER_PASS = (0.3, 0.6, 1.0, 1.0)  # weight of the class likelihoods
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.25, 4.0
BISECTIONS = 16  # locate the log-temperature to within 5e-5


def apply_temperature(scores: NDArray[np.floating], temperature: float) -> Floats:
    """Return softmax(log(scores)/temperature) of scores [n, K].

    >>> apply_temperature(np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
    [[0.941, 0.059]]
    """
    shares = scores.astype(np.float64) / scores.max(axis=1, keepdims=True)  # the largest is 1, so no row underflows
    powers = shares ** (1 / temperature)
    tempered: Floats = powers / powers.sum(axis=1, keepdims=True)
    return tempered


def fit_temperature(scores: Array, weights: Floats, accuracy: float) -> float:
    """Find the temperature at which the weighted mean confidence equals an accuracy.

    Args:
        scores: Probabilities, [n, K].
        weights: Weights of the rows, [n]; they sum to one.
        accuracy: The accuracy to match.

    Returns:
        A temperature from 0.25 to 4. Above 1 the scores were too confident.

    Example:
        >>> scores = np.array([[0.9, 0.1], [0.9, 0.1]], np.float32)
        >>> round(fit_temperature(scores, np.full(2, 0.5), accuracy=0.75), 2)
        2.0
    """
    low, high = np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE)
    for _ in range(BISECTIONS):  # confidence falls as temperature rises
        middle = (low + high) / 2
        confidence = apply_temperature(scores, float(np.exp(middle))).max(axis=1)
        low, high = (middle, high) if confidence @ weights > accuracy else (low, middle)
    return float(np.exp((low + high) / 2))


def stream_temperature(scores: Array, stream: EvaluationStream) -> float:
    """Fit the temperature of a run's scores [n, K] on its stream. A repeated image has the weight of one image.

    The class model takes dimensions to be independent. It is overconfident where images of a class differ in few
    directions, or where there are few images. There the temperature stays near 1.
    """
    images = np.unique(stream.order)
    if len(images) > MAX_IMAGES:
        images = np.sort(np.random.default_rng(stream.seed).permutation(images)[:MAX_IMAGES])
    steps = np.flatnonzero(np.isin(stream.order, images))
    row = np.searchsorted(images, stream.order[steps])  # of each step's image in `images`
    weights = 1 / np.bincount(row)[row]
    weights /= weights.sum()
    scores = scores[steps]
    labels, directions = label_jointly(stream.pack, images)
    believed = labels[row, scores.argmax(axis=1)]
    trust = min(max((directions - MIN_DIRECTIONS) / (FULL_DIRECTIONS - MIN_DIRECTIONS), 0.0), 1.0)
    return fit_temperature(scores, weights, float(believed @ weights)) ** trust if trust else 1.0


def label_jointly(pack: FeaturePack, images: Ints) -> tuple[Array, float]:
    """Label images of a pack softly, all at once, without their labels.

    Returns:
        The soft labels [n, K], and the number of directions in which images of a class differ in the CLIP space.
    """
    task = pack.task()
    clip = as_float32(pack.clip[images, 0])
    zero_shot = softmax(np.float32(task.logit_scale) * (clip @ task.unit_text.T))
    prior = np.log(np.maximum(zero_shot, np.float32(1e-12)))
    zero_shot_bias = np.clip(log_share_excess(zero_shot.sum(axis=0), 1), -0.5, 0.5)
    rows = clip if pack.aux is None else np.concatenate([clip, as_float32(pack.aux[images])], axis=1)
    parameters = GaussianParameters(task.dim, SHARPNESS, MEAN_PRIOR, VARIANCE_PRIOR)
    model = ClassModel.empty(task.classes, rows.shape[1])
    model.fit(np.stack([rows.sum(0, np.float64), np.square(rows, dtype=np.float64).sum(0)]), len(rows), parameters)
    features = model.standardize(rows, task.dim)
    labels = softmax(prior - zero_shot_bias)
    for trust in TRUST_PER_PASS:
        model.clear()
        model.add(labels, features)
        class_prior = np.float32(0.5) * np.clip(log_share_excess(model.soft_count, 10), -1, 1)
        evidence = log_likelihood(model, linear(model, parameters), features, task.dim).sum(axis=0)
        labels = softmax(prior - zero_shot_bias + class_prior + np.float32(trust) * evidence)
    within = features[:, : task.dim], model.sums[:, : task.dim], model.soft_count
    return labels, _within_class_directions(*within)


def _within_class_directions(rows: Array, class_sums: Array, soft_count: Array) -> float:
    """Return the participation ratio of the within-class scatter [D, D]: an effective number of directions."""
    class_means = class_sums / np.maximum(soft_count, np.float32(1e-6))[:, None]
    within = rows.T @ rows - class_sums.T @ class_means
    spread = float(np.trace(within))
    return spread * spread / max(float(np.square(within).sum()), 1e-12)
