"""Metrics of one run, along a run, and between runs. Pure functions on arrays; labels are arguments.

All metrics are fractions of one, except `nll`, which is in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Bools, Ints
from cosmic_tta.core.errors import InputError

Floats = NDArray[np.float64]
ECE_BINS = 15
WINDOW = 200  # steps that each point of an accuracy curve averages
WORST_SHARE = 0.1
MIN_RUNS_FOR_WORST = 20  # with fewer runs a tenth of them says too little
BOOTSTRAP_DRAWS = 2000


def compute_metrics(scores: Array, zero_shot: Array, labels: Ints) -> dict[str, float]:
    """Compute the metrics of scores, and those of zero-shot on the same images.

    Args:
        scores: Probabilities, [n, K].
        zero_shot: Probabilities of zero-shot, [n, K].
        labels: True classes, [n].

    Returns:
        `acc1`, `acc5`, `macro_acc`, `zero_shot_acc1`, `gain`, `ece`, `nll` and `brier`.

    Example:
        >>> scores = np.array([[0.7, 0.3], [0.4, 0.6]], np.float32)
        >>> metrics = compute_metrics(scores, scores[::-1], np.array([0, 1]))
        >>> metrics["acc1"], metrics["zero_shot_acc1"], metrics["gain"]
        (1.0, 0.0, 1.0)
    """
    rows = np.arange(len(labels))
    true = scores[rows, labels].astype(np.float64)
    # Equal scores of earlier classes rank first, so that rank 0 is the argmax.
    ties = (scores == true[:, None]) & (np.arange(scores.shape[1]) < labels[:, None])
    rank = ((scores > true[:, None]) | ties).sum(axis=1)
    correct = rank == 0
    zero_shot_acc1 = float((zero_shot.argmax(axis=1) == labels).mean())
    one_hot = np.zeros(scores.shape)
    one_hot[rows, labels] = 1
    return {
        "acc1": float(correct.mean()),
        "acc5": float((rank < 5).mean()),
        "macro_acc": float(np.mean([correct[labels == k].mean() for k in np.unique(labels)])),
        "zero_shot_acc1": zero_shot_acc1,
        "gain": float(correct.mean()) - zero_shot_acc1,
        "ece": expected_calibration_error(scores.max(axis=1), correct),
        "nll": float(-np.log(np.maximum(true, 1e-12)).mean()),
        "brier": float(((scores - one_hot) ** 2).sum(axis=1).mean()),
    }


def expected_calibration_error(confidence: NDArray[Any], correct: Any) -> float:
    """Return the expected calibration error (ECE) over `ECE_BINS` bins of equal width.

    >>> expected_calibration_error(np.array([1.0, 1.0]), np.array([True, False]))
    0.5
    """
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = np.bincount(bins, confidence.astype(np.float64) - correct, minlength=ECE_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def rejection_auroc(confidence: NDArray[Any], known: Bools) -> float | None:
    """Return how often a known image has a higher confidence than an unknown one; ties count half.

    The result is None if there are no known or no unknown images.

    >>> rejection_auroc(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    pairs = int(known.sum()) * int((~known).sum())
    if not pairs:
        return None
    _, group, size = np.unique(confidence, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - (size - 1) / 2)[group]  # from 1; equal values share their mean rank
    least = known.sum() * (known.sum() + 1) / 2
    return float((rank[known].sum() - least) / pairs)


def running_accuracy(correct: Bools, window: int = WINDOW) -> Floats:
    """Return the accuracy of the last `window` steps at each step; at the start, of all steps so far.

    >>> running_accuracy(np.array([True, False, True, True]), window=2).tolist()
    [1.0, 0.5, 0.5, 1.0]
    """
    total = np.concatenate([[0], np.cumsum(correct, dtype=np.float64)])
    ends = np.arange(1, len(correct) + 1)
    starts = np.maximum(0, ends - window)
    means: Floats = (total[ends] - total[starts]) / (ends - starts)
    return means


class CorrectSteps(NamedTuple):
    """Which counted steps of a run were correct. Comparisons between runs need no more than this."""

    images: Ints  # [n] rows of the pack
    correct: Bools  # [n]
    zero_shot_correct: Bools  # [n]


class Summary(NamedTuple):
    """A metric over several runs."""

    mean: float
    std: float | None  # between runs; None for one run
    worst_tenth: float | None  # mean of the worst tenth of the runs; None for fewer than twenty


def summarize(values: Sequence[float]) -> Summary:
    """Return mean, standard deviation and worst tenth of a metric where higher is better.

    >>> summarize([0.5, 0.7]).mean
    0.6
    """
    ordered = np.sort(np.asarray(values, np.float64))
    if not len(ordered):
        raise InputError("a summary needs the metric of at least one run; given none.")
    std = float(ordered.std(ddof=1)) if len(ordered) > 1 else None
    worst = None
    if len(ordered) >= MIN_RUNS_FOR_WORST:
        worst = float(ordered[: int(np.ceil(WORST_SHARE * len(ordered)))].mean())
    return Summary(float(ordered.mean()), std, worst)


class Interval(NamedTuple):
    """A mean difference with its confidence interval.

    Example:
        >>> import numpy as np
        >>> found = paired_interval([np.ones(50)], [np.arange(50)])  # always one more right answer
        >>> found.mean == found.low == found.high == 1
        True
    """

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval is on one side of zero."""
        return self.low > 0 or self.high < 0


def paired_interval(
    differences: Sequence[NDArray[Any]],
    images: Sequence[Ints],
    *,
    level: float = 0.95,
    draws: int = BOOTSTRAP_DRAWS,
    seed: int = 0,
) -> Interval:
    """Return the mean of paired differences over runs, with a percentile bootstrap interval.

    Each draw resamples images with replacement. An image brings all its steps in all runs, because the same image in
    another run is not independent. With several runs, runs are resampled too. Images with equal differences in all
    runs are drawn as one group, which changes the cost and not the distribution.

    Args:
        differences: Per run, one difference per step, [n]; for example one method's correct steps minus another's.
        images: Per run, the row of the pack that each step showed, [n].
        level: The confidence level.
        draws: The number of bootstrap draws.
        seed: The seed of the draws.

    Returns:
        The mean over runs and its interval.

    Raises:
        InputError: There is no run, or a run has no step.

    Example:
        >>> interval = paired_interval([np.array([1.0, 1.0, 0.0, 1.0] * 50)], [np.arange(200)])
        >>> interval.mean, interval.excludes_zero
        (0.75, True)
    """
    if not differences or not all(len(each) for each in differences):
        raise InputError("an interval needs at least one run, and each run at least one step that counts.")
    size = max(int(each.max()) for each in images) + 1
    sums = np.stack(  # [runs, images]
        [np.bincount(own, each.astype(np.float64), size) for own, each in zip(images, differences, strict=True)]
    )
    steps = np.stack([np.bincount(own, minlength=size) for own in images])  # [runs, images]
    shown = steps.any(axis=0)
    groups, count = np.unique(np.concatenate([sums, steps])[:, shown], axis=1, return_counts=True)
    sums, steps = groups[: len(images)], groups[len(images) :]  # [runs, groups]
    rng = np.random.default_rng(seed)
    runs = rng.multinomial(len(images), np.full(len(images), 1 / len(images)), draws)  # [draws, runs]
    times = rng.multinomial(count.sum(), count / count.sum(), draws)  # [draws, groups]
    means = (times @ sums.T) / np.maximum(times @ steps.T, 1)  # [draws, runs]; 0 for a run without a drawn image
    drawn = (runs * means).sum(axis=1) / len(images)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(((sums @ count) / (steps @ count)).mean()), float(low), float(high))
