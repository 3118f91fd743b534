"""The evaluator: steps a method through a stream and compares its predictions with the labels.

No method sees a label. `evaluate` yields after every step; `run_evaluation` returns the whole run with its report.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, agreement
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import values
from cosmic_tta.core.state_tree import state_bytes
from cosmic_tta.core.types import Prediction, State
from cosmic_tta.evaluation.metrics import (
    WINDOW,
    CorrectSteps,
    Floats,
    compute_metrics,
    expected_calibration_error,
    paired_interval,
    rejection_auroc,
    running_accuracy,
)
from cosmic_tta.evaluation.report import Report, machine, software
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.evaluation.streams.stream import EvaluationStream
from cosmic_tta.evaluation.temperature import apply_temperature, stream_temperature
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.sessions.admission import AdmissionPolicy, guarded_step


@dataclass(frozen=True)
class EvaluationProgress:
    """One step of an evaluation: its prediction, and the accuracy so far.

    Example:
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> *_, last = evaluate(make_method("zero_shot"), superclass_pack(0, images=20, dim=16))
        >>> last.done, last.total, last.acc1 == last.zero_shot_acc1
        (20, 20, True)
    """

    done: int  # steps
    total: int
    index: int  # the image's row in the pack
    prediction: Prediction
    seconds: float  # duration of the step
    method: Method[Any]
    state: State
    acc1: float | None  # of the counted steps so far; None without labels
    zero_shot_acc1: float | None


@dataclass(frozen=True)
class EvaluationRun:
    """A whole evaluation: its report, and the scores of every step in the order of the stream.

    Example:
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> run = run_evaluation(make_method("tda"), superclass_pack(0, images=20, dim=16))
        >>> run.scores.shape, sorted(run.order) == list(range(20)), run.report.method
        ((20, 20), True, 'tda')
    """

    report: Report
    order: Ints  # [n]
    scores: Array  # [n, K]
    parts: dict[str, Array]  # each [n, K]
    stream: EvaluationStream

    @property
    def labels(self) -> Ints | None:
        """The true class of each step, [n]: UNKNOWN where it is not in the task, None without labels."""
        return self.stream.labels

    @property
    def counted(self) -> Bools:
        """Whether accuracy counts the step, [n]."""
        return self.stream.counted

    @property
    def known(self) -> Bools:
        """Whether the true class is in the task, [n]."""
        return self.stream.known

    @cached_property
    def temperature(self) -> float:
        """The temperature that calibrates the scores, fitted without labels; see `temperature.py`."""
        return stream_temperature(self.scores, self.stream)

    @property
    def calibrated_scores(self) -> Floats:
        """The scores at the fitted temperature, [n, K]. No prediction differs."""
        return apply_temperature(self.scores, self.temperature)

    @property
    def correct_steps(self) -> CorrectSteps | None:
        """Which counted steps were correct; None without labels."""
        if self.labels is None:
            return None
        labels = self.labels[self.counted]
        correct, zero_shot_correct = (
            scores[self.counted].argmax(axis=1) == labels for scores in (self.scores, self.parts["zero_shot"])
        )
        return CorrectSteps(self.order[self.counted], correct, zero_shot_correct)

    def curve(self, window: int = WINDOW) -> Floats:
        """Return the accuracy of the last `window` counted steps, at each counted step; empty without labels."""
        steps = self.correct_steps
        return running_accuracy(np.zeros(0, bool) if steps is None else steps.correct, window)

    def save_samples(self, file: str | os.PathLike[str]) -> None:
        """Write `order`, `scores` and every `part_<name>` to one .npz file, which appears whole or not at all."""
        arrays: dict[str, Any] = {f"part_{name}": rows for name, rows in self.parts.items()}
        content = io.BytesIO()
        np.savez_compressed(content, order=self.order, scores=self.scores, **arrays)
        write_atomic(Path(file), content.getvalue())


def evaluate(
    method: Method[Any], pack: FeaturePack, order: str = "shuffle", seed: int = 0, limit: int | None = None
) -> Iterator[EvaluationProgress]:
    """Step a fresh state of the method through a stream, one image at a time, and yield after each step.

    Args:
        method: The method to evaluate.
        pack: The features; with labels, the progress has accuracies.
        order: The name of a stream; see `STREAMS`.
        seed: The seed of the stream.
        limit: Stop after so many steps.

    Yields:
        The progress after each step.

    Raises:
        CosmicError: The stream cannot be made, or the method does not fit the pack.

    Example:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> [step.done for step in evaluate(make_method("tda"), superclass_pack(images=20), limit=3)]
        [1, 2, 3]
    """
    return iter_predictions(method, make_stream(order, pack, seed, limit))


def iter_predictions(
    method: Method[Any], stream: EvaluationStream, guard: AdmissionPolicy | None = None
) -> Iterator[EvaluationProgress]:
    """Step a fresh state through a stream and yield after each step. A guard decides which images are learned."""
    task = stream.pack.task()
    state, recent = method.init(task), None if guard is None else guard.init(task)
    correct = zero_shot_correct = counted = 0
    for step, index in enumerate(map(int, stream.order)):
        sample = stream.pack.sample(index)
        start = perf_counter()
        if guard is None or recent is None:
            prediction = method.step(state, sample)
        else:
            prediction = guarded_step(method, state, guard, recent, sample).prediction
        seconds = perf_counter() - start
        acc1 = zero_shot_acc1 = None
        if stream.labels is not None:
            if stream.counted[step]:
                label = int(stream.labels[step])
                correct += prediction.label == label
                zero_shot_correct += int(prediction.parts["zero_shot"].argmax()) == label
                counted += 1
            if counted:
                acc1, zero_shot_acc1 = correct / counted, zero_shot_correct / counted
        yield EvaluationProgress(step + 1, len(stream), index, prediction, seconds, method, state, acc1, zero_shot_acc1)


def run_evaluation(
    method: Method[Any],
    pack: FeaturePack,
    *,
    preset: str = "default",
    order: str = "shuffle",
    aux: str = "given",
    seed: int = 0,
    limit: int | None = None,
    watch: Callable[[EvaluationProgress], None] | None = None,
    calibrate: bool = True,
    guard: AdmissionPolicy | None = None,
) -> EvaluationRun:
    """Evaluate a method on a stream and return all scores with a report.

    Args:
        method: The method to evaluate.
        pack: The features; with labels, the report has metrics.
        preset: The preset's name for the report.
        order: The name of a stream; see `STREAMS`.
        aux: The kind of auxiliary features; see `FeaturePack.with_aux`.
        seed: The seed of the stream.
        limit: Stop after so many steps.
        watch: Called after every step.
        calibrate: Whether to fit the temperature of reported probabilities.
        guard: Decides which images the method learns from; None lets it learn from all.

    Returns:
        The run.

    Raises:
        CosmicError: The stream cannot be made, or the method does not fit the pack.

    Example:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> run = run_evaluation(make_method("tda"), superclass_pack(images=40), order="class-sequential")
        >>> run.scores.shape, sorted(run.report.metrics)[:2]
        ((40, 20), ['acc1', 'acc5'])
    """
    stream = make_stream(order, pack.with_aux(aux, seed), seed, limit)
    seconds, scores, parts = [], [], []  # a whole prediction would keep its explanation's arrays alive
    for progress in iter_predictions(method, stream, guard):
        seconds.append(progress.seconds)
        scores.append(progress.prediction.scores)
        parts.append(progress.prediction.parts)
        if watch:
            watch(progress)
    run = EvaluationRun(
        report=_report(method, preset, stream, aux, seconds, state_bytes(progress.state)),
        order=stream.order,
        scores=np.stack(scores),
        parts={name: np.stack([each[name] for each in parts]) for name in parts[0]},
        stream=stream,
    )
    run.report.metrics.update(_metrics(run, calibrate=calibrate))
    return run


def _metrics(run: EvaluationRun, *, calibrate: bool) -> dict[str, float]:
    """Return the metrics of the counted steps, and the AUROC of unknown images over all steps."""
    steps = run.correct_steps
    if run.labels is None or steps is None:
        return {}
    found, counted = {}, run.counted
    if counted.any():
        found = compute_metrics(run.scores[counted], run.parts["zero_shot"][counted], run.labels[counted])
        gain = paired_interval([steps.correct.astype(float) - steps.zero_shot_correct], [steps.images])
        found |= {"gain_low": gain.low, "gain_high": gain.high}
    if counted.any() and calibrate:
        confidence = run.calibrated_scores[counted].max(axis=1)
        found |= {"temperature": run.temperature, "ece_fitted": expected_calibration_error(confidence, steps.correct)}
    auroc = rejection_auroc(agreement(run.parts["zero_shot"], run.scores), run.known)  # 1 - `Prediction.unknown`
    return found if auroc is None else found | {"auroc": auroc}


def _report(
    method: Method[Any], preset: str, stream: EvaluationStream, aux: str, seconds: list[float], size: int
) -> Report:
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
