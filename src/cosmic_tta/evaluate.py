"""Where labels meet answers: an iterator of progress, and the report that drains it. No method sees one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from cosmic_tta.calibration import stream_temperature, temper
from cosmic_tta.core import Method, Prediction, State
from cosmic_tta.guards import Guard, guarded_step
from cosmic_tta.metrics import (
    WINDOW,
    Floats,
    Hits,
    calibration_error,
    measure,
    paired_interval,
    rejection_auroc,
    running_accuracy,
)
from cosmic_tta.ops import Array, Bools, Ints
from cosmic_tta.packs import FeaturePack
from cosmic_tta.parameters import values
from cosmic_tta.report import Report, machine, software
from cosmic_tta.state import state_bytes
from cosmic_tta.streams import Stream, make_stream


@dataclass(frozen=True)
class Progress:
    """One image further: which one it was, what was said of it, and how it goes so far."""

    done: int
    total: int
    index: int  # the image's place in the pack
    prediction: Prediction
    seconds: float  # that the step took
    state: State
    acc1: float | None  # so far, of the steps that count; None without labels
    zero_shot_acc1: float | None


@dataclass(frozen=True)
class Run:
    """A whole evaluation: its report, and every answer in the order of the stream."""

    report: Report
    order: Ints  # [n]
    scores: Array  # [n, K]
    parts: dict[str, Array]  # each [n, K]
    stream: Stream

    @property
    def labels(self) -> Ints | None:
        """The true class of each step, [n]; UNKNOWN where it is not the task's; None without labels."""
        return self.stream.labels

    @property
    def counted(self) -> Bools:
        """Which steps count for accuracy, [n]."""
        return self.stream.counted

    @property
    def known(self) -> Bools:
        """Which steps show a class of the task, [n]."""
        return self.stream.known

    @cached_property
    def temperature(self) -> float:
        """The temperature at which the scores are honest, fitted without labels: see `calibration`."""
        return stream_temperature(self.scores, self.stream)

    @property
    def fitted(self) -> Floats:
        """The probabilities to report: the scores at the fitted temperature, [n, K]; no answer changes."""
        return temper(self.scores, self.temperature)

    @property
    def hits(self) -> Hits | None:
        """Which of the steps that count were answered rightly; None without labels."""
        if self.labels is None:
            return None
        labels = self.labels[self.counted]
        answers = (self.scores, self.parts["zero_shot"])
        right, zero_shot = (rows[self.counted].argmax(axis=1) == labels for rows in answers)
        return Hits(self.order[self.counted], right, zero_shot)

    def curve(self, window: int = WINDOW) -> Floats:
        """Return accuracy over time: for each step that counts, that of the last `window`; empty without labels."""
        return running_accuracy(np.zeros(0, bool) if self.hits is None else self.hits.right, window)

    def save_samples(self, file: str) -> None:
        """Write order, scores and every branch to one .npz file."""
        arrays: dict[str, Any] = {f"part_{name}": rows for name, rows in self.parts.items()}
        with open(file, "wb") as out:  # given a name, numpy would append a suffix to it
            np.savez_compressed(out, order=self.order, scores=self.scores, **arrays)


def evaluate(
    method: Method[Any], pack: FeaturePack, order: str = "shuffle", seed: int = 0, limit: int | None = None
) -> Iterator[Progress]:
    """Step a fresh state through a stream of the pack's images, one at a time, and yield after each."""
    return replay(method, make_stream(order, pack, seed, limit))


def replay(method: Method[Any], stream: Stream, guard: Guard | None = None) -> Iterator[Progress]:
    """Step a fresh state through a stream, one image at a time, and yield after each."""
    task = stream.pack.task()
    state, remembered = method.init(task), None if guard is None else guard.init(task)
    right = right_zero_shot = counted = 0
    for step, index in enumerate(map(int, stream.order)):
        sample = stream.pack.sample(index)
        start = perf_counter()
        if guard is None or remembered is None:
            prediction = method.step(state, sample)
        else:
            prediction = guarded_step(method, state, guard, remembered, sample).prediction
        seconds = perf_counter() - start
        acc1 = zero_shot_acc1 = None
        if stream.labels is not None:
            if stream.counted[step]:
                label = int(stream.labels[step])
                right += prediction.label == label
                right_zero_shot += int(prediction.parts["zero_shot"].argmax()) == label
                counted += 1
            if counted:
                acc1, zero_shot_acc1 = right / counted, right_zero_shot / counted
        yield Progress(step + 1, len(stream), index, prediction, seconds, state, acc1, zero_shot_acc1)


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
    calibrate: bool = True,
    guard: Guard | None = None,
) -> Run:
    """Drain an evaluation into a report; `watch` sees every step.

    `preset` is the name to report; `order` names a stream, see `streams`; `aux` replaces the auxiliary features, see
    `FeaturePack.with_aux`. `calibrate` fits the temperature of reported probabilities. A `guard` decides which images
    may teach.
    """
    stream = make_stream(order, pack.with_aux(aux, seed), seed, limit)
    seconds, scores, parts = [], [], []  # not the predictions: each holds on to what explains it
    for progress in replay(method, stream, guard):
        seconds.append(progress.seconds)
        scores.append(progress.prediction.scores)
        parts.append(progress.prediction.parts)
        if watch:
            watch(progress)
    run = Run(
        report=_report(method, preset, stream, aux, seconds, state_bytes(progress.state)),
        order=stream.order,
        scores=np.stack(scores),
        parts={name: np.stack([each[name] for each in parts]) for name in parts[0]},
        stream=stream,
    )
    run.report.metrics.update(_metrics(run, calibrate=calibrate))
    return run


def _metrics(run: Run, *, calibrate: bool) -> dict[str, float]:
    """Measure a run: its accuracy on the steps that count, its doubt of unknowns on all."""
    if run.labels is None or run.hits is None:
        return {}
    found, counted = {}, run.counted
    if counted.any():
        found = measure(run.scores[counted], run.parts["zero_shot"][counted], run.labels[counted])
        gain = paired_interval([run.hits.right.astype(float) - run.hits.zero_shot], [run.hits.images])
        found |= {"gain_low": gain.low, "gain_high": gain.high}
    if counted.any() and calibrate:
        confidence = run.fitted[counted].max(axis=1)
        found |= {"temperature": run.temperature, "ece_fitted": calibration_error(confidence, run.hits.right)}
    auroc = rejection_auroc(run.scores.max(axis=1), run.known)
    return found if auroc is None else found | {"auroc": auroc}


def _report(method: Method[Any], preset: str, stream: Stream, aux: str, seconds: list[float], size: int) -> Report:
    return Report(
        pack=stream.pack.name,
        method=method.name,
        preset=preset,
        params=values(method),
        order=stream.name,
        aux=aux,
        seed=stream.seed,
        n=len(stream),
        metrics={},
        ms_per_sample=1e3 * float(np.mean(seconds)),
        state_mb=size / 1e6,
        software=software(),
        machine=machine(),
        counted=int(stream.counted.sum()),
        note=stream.note,
    )
