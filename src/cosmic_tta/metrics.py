"""How good answers are: of one run, along a run, and between runs. Pure functions on arrays; labels come as arguments.

All are fractions of one, but `nll`, which is in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, Bools, Ints

Floats = NDArray[np.float64]
ECE_BINS = 15
WINDOW = 200  # answers that a point of a curve averages over
WORST = 0.1  # the share of runs that count as the worst
WORST_RUNS = 20  # fewer have no tenth worth a mean
DRAWS = 2000  # of a bootstrap


def measure(scores: Array, zero_shot: Array, labels: Ints) -> dict[str, float]:
    """Return the metrics of scores [n, K] against labels [n], beside zero-shot's answers to the same prompts."""
    rows = np.arange(len(labels))
    true = scores[rows, labels].astype(np.float64)
    # The rank counts equal scores of earlier classes too, so that rank 0 is the argmax.
    ties = (scores == true[:, None]) & (np.arange(scores.shape[1]) < labels[:, None])
    rank = ((scores > true[:, None]) | ties).sum(axis=1)
    hits = rank == 0
    zero_shot_acc1 = float((zero_shot.argmax(axis=1) == labels).mean())
    onehot = np.zeros(scores.shape)
    onehot[rows, labels] = 1
    return {
        "acc1": float(hits.mean()),
        "acc5": float((rank < 5).mean()),
        "macro_acc": float(np.mean([hits[labels == k].mean() for k in np.unique(labels)])),
        "zero_shot_acc1": zero_shot_acc1,
        "gain": float(hits.mean()) - zero_shot_acc1,
        "ece": calibration_error(scores.max(axis=1), hits),
        "nll": float(-np.log(np.maximum(true, 1e-12)).mean()),
        "brier": float(((scores - onehot) ** 2).sum(axis=1).mean()),
    }


def calibration_error(confidence: NDArray[Any], hits: Any) -> float:
    """Return the expected calibration error over equal-width bins of confidence."""
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = np.bincount(bins, confidence.astype(np.float64) - hits, minlength=ECE_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def rejection_auroc(confidence: NDArray[Any], known: Bools) -> float | None:
    """Return how often a known image has more confidence than an unknown one, ties half; None without both.

    >>> rejection_auroc(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    pairs = int(known.sum()) * int((~known).sum())
    if not pairs:
        return None
    _, place, count = np.unique(confidence, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]  # from 1, the mean of equal ones
    least = known.sum() * (known.sum() + 1) / 2
    return float((rank[known].sum() - least) / pairs)


def running_accuracy(hits: Bools, window: int = WINDOW) -> Floats:
    """Average over the last `window` answers, or over all where there are fewer.

    >>> running_accuracy(np.array([True, False, True, True]), window=2).tolist()
    [1.0, 0.5, 0.5, 1.0]
    """
    total = np.concatenate([[0], np.cumsum(hits, dtype=np.float64)])
    ends = np.arange(1, len(hits) + 1)
    starts = np.maximum(0, ends - window)
    means: Floats = (total[ends] - total[starts]) / (ends - starts)
    return means


class Hits(NamedTuple):
    """What is left of a run for comparisons: which of its counted steps were answered rightly."""

    images: Ints  # [n] places in the pack
    right: Bools  # [n]
    zero_shot: Bools  # [n] did zero-shot answer rightly?


class Summary(NamedTuple):
    """A figure across runs."""

    mean: float
    std: float | None  # between runs; None of one
    worst: float | None  # the mean of the worst tenth of the runs; None of fewer than twenty


def summary(values: Sequence[float]) -> Summary:
    """Return mean, deviation and the mean of the worst tenth of a figure that is the better the higher."""
    ordered = np.sort(np.asarray(values, np.float64))
    if not len(ordered):
        raise InputError("a summary needs the figure of at least one run.")
    std = float(ordered.std(ddof=1)) if len(ordered) > 1 else None
    worst = float(ordered[: int(np.ceil(WORST * len(ordered)))].mean()) if len(ordered) >= WORST_RUNS else None
    return Summary(float(ordered.mean()), std, worst)


class Interval(NamedTuple):
    """A difference, and between which two it lies with the asked confidence."""

    mean: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def paired_interval(
    differences: Sequence[NDArray[Any]],
    images: Sequence[Ints],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Return the mean over runs of paired differences, with its bootstrap interval.

    One array a run: the differences of its steps, and the image that each step showed. Images are drawn anew with
    repetition, each with all its steps in all runs, for the same image in another run is no news; and if there
    are several runs, so are they. The interval is that of the percentiles. Images with the same differences in all
    runs are drawn as one group, which changes nothing but the cost: no draw looks at single images.

    Args:
        differences: [n] of each run, such as one method's hits minus another's.
        images: [n] of each run, the places of its images in the pack.
        level: The share of the draws within the interval.
        draws: How many.
        seed: Of the draws.
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
    means = (times @ sums.T) / np.maximum(times @ steps.T, 1)  # [draws, runs]; a run that nothing was drawn of: 0
    drawn = (runs * means).sum(axis=1) / len(images)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(((sums @ count) / (steps @ count)).mean()), float(low), float(high))
