"""The only room with labels: an iterator of progress, and the report that drains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from cosmic_tta.core import Method, Prediction, State
from cosmic_tta.ops import Array, Ints
from cosmic_tta.packs import FeaturePack
from cosmic_tta.parameters import values
from cosmic_tta.report import Report, machine, software
from cosmic_tta.state import state_bytes
from cosmic_tta.streams import stream_order

ECE_BINS = 15


@dataclass(frozen=True)
class Progress:
    """One image further: which one it was, what was said of it, and how it goes so far."""

    done: int
    total: int
    index: int  # the image's place in the pack
    prediction: Prediction
    seconds: float  # that the step took
    state: State
    acc1: float | None  # so far; None without labels
    zero_shot_acc1: float | None


@dataclass(frozen=True)
class Run:
    """A whole evaluation: its report, and every answer in the order of the stream."""

    report: Report
    order: Ints  # [n]
    scores: Array  # [n, K]
    parts: dict[str, Array]  # each [n, K]

    def save_samples(self, file: str) -> None:
        """Write order, scores and every branch to one .npz file."""
        arrays: dict[str, Any] = {f"part_{name}": rows for name, rows in self.parts.items()}
        with open(file, "wb") as out:  # given a name, numpy would append a suffix to it
            np.savez_compressed(out, order=self.order, scores=self.scores, **arrays)


def evaluate(
    method: Method[Any], pack: FeaturePack, order: str = "shuffle", seed: int = 0, limit: int | None = None
) -> Iterator[Progress]:
    """Step a fresh state through the pack's images, one at a time, and yield after each."""
    state = method.init(pack.task())
    indices = stream_order(order, len(pack), seed, pack.labels, limit)
    right = right_zero_shot = 0
    for done, index in enumerate(map(int, indices), start=1):
        sample = pack.sample(index)
        start = perf_counter()
        prediction = method.step(state, sample)
        seconds = perf_counter() - start
        acc1 = zero_shot_acc1 = None
        if pack.labels is not None:
            label = int(pack.labels[index])
            right += prediction.label == label
            right_zero_shot += int(prediction.parts["zero_shot"].argmax()) == label
            acc1, zero_shot_acc1 = right / done, right_zero_shot / done
        yield Progress(done, len(indices), index, prediction, seconds, state, acc1, zero_shot_acc1)


def score(
    method: Method[Any],
    pack: FeaturePack,
    *,
    preset: str = "default",
    order: str = "shuffle",
    aux: str = "given",
    seed: int = 0,
    limit: int | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Drain an evaluation into a report; `watch` sees every step.

    `preset` is the name to report; `aux` replaces the auxiliary features, see `FeaturePack.with_aux`.
    """
    pack = pack.with_aux(aux, seed)
    indices, seconds, scores, parts = [], [], [], []  # not the predictions: each holds on to what explains it
    for progress in evaluate(method, pack, order, seed, limit):
        indices.append(progress.index)
        seconds.append(progress.seconds)
        scores.append(progress.prediction.scores)
        parts.append(progress.prediction.parts)
        if watch:
            watch(progress)
    run = Run(
        report=_report(method, preset, pack, order, aux, seed, seconds, state_bytes(progress.state)),
        order=np.array(indices, np.int64),
        scores=np.stack(scores),
        parts={name: np.stack([each[name] for each in parts]) for name in parts[0]},
    )
    if pack.labels is not None:
        labels = np.asarray(pack.labels[run.order])
        run.report.metrics.update(measure(run.scores, run.parts["zero_shot"], labels))
    return run


def _report(
    method: Method[Any],
    preset: str,
    pack: FeaturePack,
    order: str,
    aux: str,
    seed: int,
    seconds: list[float],
    size: int,
) -> Report:
    return Report(
        pack=pack.name,
        method=method.name,
        preset=preset,
        params=values(method),
        order=order,
        aux=aux,
        seed=seed,
        n=len(seconds),
        metrics={},
        ms_per_sample=1e3 * float(np.mean(seconds)),
        state_mb=size / 1e6,
        software=software(),
        machine=machine(),
    )


def measure(scores: Array, zero_shot: Array, labels: Ints) -> dict[str, float]:
    """Return the metrics of scores [n, K] against labels [n], as fractions of one (nll in nats)."""
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


def calibration_error(confidence: Array, hits: Any) -> float:
    """Return the expected calibration error over equal-width bins of confidence."""
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = np.bincount(bins, confidence.astype(np.float64) - hits, minlength=ECE_BINS)
    return float(np.abs(gaps).sum() / len(confidence))
