"""The Gaussian class model: soft class sums in standardised spaces, and log-likelihoods of samples under each class.

The CLIP feature and the auxiliary feature of a sample lie side by side in one row of W = D + E numbers. Each space is
standardised by itself: x = unit((row - centre)·scale), then seen from the running mean g: x̃ = unit(x - g).

In each space a class mean is drawn from N(0, ρ) and a sample from N(mean, 1 - ρ), in `sharpness` effective dimensions.
The reliability ρ is the mean cosine of two samples of one class. With soft counts n_k and class sums c_k:

    a = ρ / (n·ρ + 1 - ρ),   u = 1 - ρ + ρ·(1 - ρ) / (n·ρ + 1 - ρ)
    log-likelihood = -sharpness/2 · [log u + (1 - 2a·x̃·c + a²·|c|²) / u]

A class without samples has c = 0 and u = 1: a novel class, as wide as all classes together.
Compiled twin of `score` and `relabel`: kernel/gaussian_classes.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import TINY, Array, Ints, as_float32, softmax, take_classes, unit
from cosmic_tta.core.kernel import COMPILED

Floats = NDArray[np.float64]

MIN_RELIABILITY, MAX_RELIABILITY = 0.01, 0.9
LABEL_NOISE = 1.3  # wrong soft labels lower the mean cosine within a class: ρ is raised by this factor
PRIOR_PAIRS, PRIOR_COSINE = 20.0, 0.3  # what ρ is shrunk towards, and by how many pairs of samples
MIN_REST = np.float32(1e-6)  # of a sample's length, squared, beside the running mean
MAX_SCALE = 1000.0  # of a dimension that hardly varies


class GaussianParameters(NamedTuple):
    """What is fixed about the model."""

    dim: int  # D, width of the CLIP space; the auxiliary space is the rest
    sharpness: float  # effective dimensions of a space
    mean_prior: float  # samples' worth of shrinkage of the running mean
    variance_prior: float  # samples' worth of shrinkage of each dimension's variance


@dataclass
class ClassModel:
    """The standardisation of the spaces, and sums of softly labelled samples x with labels z in it."""

    centre: Array  # [W]
    scale: Array  # [W]
    sums: Array  # [K, W] Σ z_k·x
    total: Array  # [W] Σ x
    soft_count: Array  # [K] Σ z_k
    square: Array  # [K] Σ z_k²
    number: int  # of samples

    @classmethod
    def empty(cls, classes: int, width: int) -> ClassModel:
        """Make the model of no samples; it leaves features as they are."""
        zeros, counts = np.zeros((2, width), np.float32), np.zeros((2, classes), np.float32)
        sums = np.zeros((classes, width), np.float32)
        return cls(zeros[0], np.ones(width, np.float32), sums, zeros[1], counts[0], counts[1], 0)

    def clear(self) -> None:
        """Forget all samples; the standardisation stays."""
        for sums in (self.sums, self.total, self.soft_count, self.square):
            sums.fill(0)
        self.number = 0

    def fit(self, moments: Floats, number: int, parameters: GaussianParameters) -> None:
        """Fit the standardisation to samples, from the sums of their rows and of the squares, [2, W]."""
        for space in spaces(parameters.dim, len(self.total)):
            mean = moments[0, space] / number
            variance = np.maximum(moments[1, space] / number - mean * mean, 0)
            average, prior = variance.mean(), parameters.variance_prior
            variance = (number * variance + prior * average) / (number + prior)
            self.centre[space] = mean
            floor = max(average / MAX_SCALE**2, TINY)
            self.scale[space] = np.sqrt(max(average, TINY) / np.maximum(variance, floor))

    def standardize(self, rows: Array, dim: int) -> Array:
        """Return standardised rows [B, W]."""
        moved = (rows - self.centre) * self.scale
        return np.concatenate([unit(moved[:, space]) for space in spaces(dim, rows.shape[1])], axis=1)

    def add(self, labels: Array, rows: Array) -> None:
        """Add standardised samples [B, W] with their soft labels [B, K]."""
        self.sums += labels.T @ rows
        self.total += rows.sum(axis=0)
        self.soft_count += labels.sum(axis=0)
        self.square += (labels * labels).sum(axis=0)
        self.number += len(rows)

    def remapped(self, class_map: Ints) -> ClassModel:
        """Return the model of other classes. Sums over all samples stay."""
        classes = (take_classes(rows, class_map) for rows in (self.sums, self.soft_count, self.square))
        sums, soft_count, square = classes
        copies = self.centre.copy(), self.scale.copy(), sums, self.total.copy(), soft_count, square
        return ClassModel(*copies, self.number)


@dataclass
class LinearModel:
    """The log-likelihood in each of S spaces as a linear function of a standardised sample x.

    It is level + slope·(x̃·S_k - (x̃·g)·n_k), with the class sums and soft counts of the model that it was made of.
    """

    mean: Array  # [W] the running means g
    level: Array  # [S, K]
    slope: Array  # [S, K]
    reliability: Array  # [S]

    @classmethod
    def empty(cls, classes: int, width: int, count: int) -> LinearModel:
        """Make the function of `count` spaces that is zero everywhere."""
        zeros = np.zeros((2, count, classes), np.float32)
        return cls(np.zeros(width, np.float32), zeros[0], zeros[1], np.zeros(count, np.float32))

    def remapped(self, class_map: Ints) -> LinearModel:
        """Return the function for other classes."""
        level, slope = (np.ascontiguousarray(take_classes(rows.T, class_map).T) for rows in (self.level, self.slope))
        return LinearModel(self.mean.copy(), level, slope, self.reliability.copy())


def spaces(dim: int, width: int) -> tuple[slice, ...]:
    """Return where the CLIP space is in a row, and the auxiliary space if there is one."""
    return (slice(0, dim),) if width == dim else (slice(0, dim), slice(dim, width))


def linear(model: ClassModel, parameters: GaussianParameters) -> LinearModel:
    """Return the model's log-likelihood as a linear function."""
    found = []
    mean = model.total / np.float32(model.number + parameters.mean_prior)
    n, sharpness = model.soft_count, np.float32(parameters.sharpness)
    for space in spaces(parameters.dim, len(mean)):
        g, sums = mean[space], model.sums[:, space]
        gg = g @ g
        rest = np.maximum(1 - gg, MIN_REST)
        length = (np.einsum("kd,kd->k", sums, sums) - 2 * n * (sums @ g) + n * n * gg) / rest  # [K] |c_k|²
        within = float((length - model.square).sum()) + PRIOR_PAIRS * PRIOR_COSINE
        pairs = float((n * n - model.square).sum()) + PRIOR_PAIRS
        reliability = np.float32(min(max(LABEL_NOISE * within / pairs, MIN_RELIABILITY), MAX_RELIABILITY))
        precision = n * reliability + 1 - reliability
        gain = reliability / precision
        spread = 1 - reliability + reliability * (1 - reliability) / precision
        level = -sharpness / 2 * (np.log(spread) + (1 + gain * gain * length) / spread)
        found.append((level, sharpness * gain / (spread * np.sqrt(rest)), reliability))
    levels, slopes, reliabilities = zip(*found, strict=True)
    return LinearModel(mean, np.stack(levels), np.stack(slopes), as_float32(reliabilities))


def log_likelihood(model: ClassModel, function: LinearModel, rows: Array, dim: int) -> Array:
    """Return the log-likelihood in each space of standardised samples [B, W], as [S, B, K]."""
    found = []
    for number, space in enumerate(spaces(dim, rows.shape[1])):
        g, sums = function.mean[space], model.sums[:, space]
        centred = unit(rows[:, space] - g)
        products = centred @ sums.T - np.outer(centred @ g, model.soft_count)
        found.append(function.level[number] + function.slope[number] * products)
    return np.stack(found)


def score(model: ClassModel, row: Array, parameters: GaussianParameters) -> tuple[Array, Array]:
    """Score one sample by a model.

    Args:
        model: The model of the samples before it.
        row: The sample, [W], not standardised. It counts in the running mean.
        parameters: What is fixed about the model.

    Returns:
        The log-likelihoods [S, K] and the reliabilities [S].
    """
    if COMPILED is not None:
        count = len(spaces(parameters.dim, len(row)))
        found, reliability = np.empty((count, len(model.soft_count)), np.float32), np.empty(count, np.float32)
        COMPILED.gaussian_score(
            row, model.centre, model.scale, model.sums, model.total, model.soft_count, model.square, model.number,
            *parameters[:3], found, reliability,
        )  # fmt: skip
        return found, reliability
    x = model.standardize(row[None], parameters.dim)
    seen = ClassModel(
        model.centre, model.scale, model.sums, model.total + x[0], model.soft_count, model.square, model.number + 1
    )
    function = linear(seen, parameters)
    return log_likelihood(model, function, x, parameters.dim)[:, 0], function.reliability


def add_sample(model: ClassModel, row: Array, logits: Array, parameters: GaussianParameters) -> None:
    """Add one sample, [W], not standardised, with the soft label softmax(logits)."""
    relabel(row[None], logits[None], None, 0, 0, model, parameters)


def relabel(
    rows: Array, logits: Array, reference: tuple[ClassModel, LinearModel] | None, trust: float, novel: float,
    draft: ClassModel, parameters: GaussianParameters,
) -> Array:  # fmt: skip
    """Label samples anew and add them to a draft.

    Args:
        rows: The samples, [B, W], not standardised.
        logits: What is known of their classes apart from the class model, [B, K].
        reference: The model that is asked, in the standardisation of the draft; None asks none.
        trust: Weight of its log-likelihoods.
        novel: See `mix_with_novel_class`.
        draft: The samples are added to it.
        parameters: What is fixed about the model.

    Returns:
        The soft labels, [B, K].
    """
    if COMPILED is not None:
        labels = np.array(logits, np.float32)
        asked: tuple[Array | None, ...] = (None,) * 5
        if reference is not None:
            model, function = reference
            asked = function.mean, function.level, function.slope, model.sums, model.soft_count
        COMPILED.gaussian_relabel(
            rows, labels, *asked, trust, novel, parameters.sharpness, parameters.dim,
            draft.centre, draft.scale, draft.sums, draft.total, draft.soft_count, draft.square,
        )  # fmt: skip
        draft.number += len(rows)
        return labels
    x = draft.standardize(rows, parameters.dim)
    if reference is not None:
        found = np.float32(trust) * log_likelihood(*reference, x, parameters.dim)
        logits = logits + mix_with_novel_class(found.sum(axis=0), novel, trust * len(found), parameters.sharpness)
    labels = softmax(logits)
    draft.add(labels, x)
    return labels


def mix_with_novel_class(log_likelihood: Array, novel: float, weight: float, sharpness: float) -> Array:
    """Mix log-likelihoods [..., K], weighted in all by `weight`, with that of a novel class of a prior share."""
    if not novel:
        return log_likelihood
    return as_float32(np.logaddexp(np.log1p(-novel) + log_likelihood, np.log(novel) - 0.5 * sharpness * weight))
