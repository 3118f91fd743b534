"""Honest probabilities without labels: one temperature for the scores of a run. No answer changes by it.

Scores are calibrated on the whole when their mean confidence is the accuracy. That accuracy is estimated: once the
stream is over, all its images are labelled together by class means in every space, a model of `bayes_means` that
sees them at once and not one by one, and what it thinks of each answer is averaged. It knows no label, and nothing
of the method but its answers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.arrivals import Stream
from cosmic_tta.balance import tilt
from cosmic_tta.likelihood import Model
from cosmic_tta.metrics import Floats
from cosmic_tta.ops import Array, Ints, as_float32, softmax
from cosmic_tta.packs import FeaturePack
from cosmic_tta.tally import Space, Tally

MOST = 4096  # images that are labelled together; of more, so many are drawn
MODEL = Model(sharpness=10, mean_prior=10, balanced=True)  # as bayes_means was first found
VARIANCE_PRIOR = 20  # as there
FEW, ENOUGH = 20, 50  # directions in which images of a class differ: up to few, nothing is fitted; from enough, all
TRUST = (0.3, 0.6, 1.0, 1.0)  # in the class means, pass after pass
COLDEST, HOTTEST = 0.25, 4.0
HALVINGS = 16  # of the range of temperatures, to within 5e-5 of its logarithm


def temper(scores: NDArray[np.floating], temperature: float) -> Floats:
    """Return scores [n, K] to the power of 1/temperature, as shares of one: softmax(log(scores)/temperature).

    >>> temper(np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
    [[0.941, 0.059]]
    """
    shares = scores.astype(np.float64) / scores.max(axis=1, keepdims=True)  # the largest is 1, whatever the power
    powers = shares ** (1 / temperature)
    tempered: Floats = powers / powers.sum(axis=1, keepdims=True)
    return tempered


def fit_temperature(scores: Array, weights: Floats, accuracy: float) -> float:
    """Return the temperature at which the weighted mean confidence of scores [n, K] is the accuracy, 0.25 to 4."""
    low, high = np.log(COLDEST), np.log(HOTTEST)
    for _ in range(HALVINGS):  # confidence falls as temperature rises
        middle = (low + high) / 2
        confidence = temper(scores, float(np.exp(middle))).max(axis=1)
        low, high = (middle, high) if confidence @ weights > accuracy else (low, middle)
    return float(np.exp((low + high) / 2))


def stream_temperature(scores: Array, stream: Stream) -> float:
    """Fit the temperature of a run's scores [n, K] over its stream. Each image counts once, however often it came.

    Class means are as sure as they take dimensions to be independent. Where images of a class differ in few
    directions, or where there are few images to differ, they boast; so there the temperature stays near 1.
    """
    images = np.unique(stream.order)
    if len(images) > MOST:
        images = np.sort(np.random.default_rng(stream.seed).permutation(images)[:MOST])
    steps = np.flatnonzero(np.isin(stream.order, images))
    place = np.searchsorted(images, stream.order[steps])
    weights = 1 / np.bincount(place)[place]
    weights /= weights.sum()
    scores = scores[steps]
    labels, directions = together(stream.pack, images)
    believed = labels[place, scores.argmax(axis=1)]
    trusted = min(max((directions - FEW) / (ENOUGH - FEW), 0.0), 1.0)
    return fit_temperature(scores, weights, float(believed @ weights)) ** trusted if trusted else 1.0


def together(pack: FeaturePack, images: Ints) -> tuple[Array, float]:
    """Label images of a pack softly, all at once: class means in every space, zero-shot as the prior.

    Returns:
        The labels [n, K], and in how many directions of the CLIP space images of a class differ.
    """
    task = pack.task()
    clip = as_float32(pack.clip[images, 0])
    zero_shot = softmax(np.float32(task.logit_scale) * (clip @ task.unit_text.T))
    prior = np.log(np.maximum(zero_shot, np.float32(1e-12)))
    features = tuple(_standard(rows) for rows in (clip, *([] if pack.aux is None else [pack.aux[images]])))
    overrated = np.clip(tilt(zero_shot.sum(axis=0), 1), -0.5, 0.5)
    one = np.ones(len(images), np.float32)
    labels = softmax(prior - overrated)
    for trust in TRUST:
        tally = Tally.empty(task)
        tally.add(labels, features, one)
        logits = prior - overrated + np.float32(0.5) * np.clip(tilt(tally.mass, 10), -1, 1)
        for rows, sums in zip(features, tally.spaces(), strict=True):
            likelihood = MODEL.likelihood(tally, sums.classes, sums.total, tally.number)
            likelihood.add(rows, sums.classes, tally.mass, trust, logits)
        labels = softmax(logits)
    return labels, _directions(features[0], tally)


def _directions(rows: Array, tally: Tally) -> float:
    """Return in how many directions images of a class differ: the participation ratio of their scatter [D, D]."""
    sums, mass = tally.clip.classes, np.maximum(tally.mass, np.float32(1e-6))
    within = rows.T @ rows - sums.T @ (sums / mass[:, None])
    spread = float(np.trace(within))
    return spread * spread / max(float(np.square(within).sum()), 1e-12)


def _standard(rows: NDArray[np.floating]) -> Array:
    """Standardise rows [n, D] by their own mean and variances."""
    rows = as_float32(rows)
    space = Space.empty(0, rows.shape[1])
    space.moment += rows.sum(axis=0, dtype=np.float64)
    space.moment2 += np.square(rows, dtype=np.float64).sum(axis=0)
    space.fit(len(rows), len(rows), VARIANCE_PRIOR)
    return space.drafted(rows)
