"""Alarms from label-free signals: drift of the images, and collapse of the answers.

Drift. The residual of an image is its feature minus the running mean of its zero-shot class. Within one domain,
residuals of different classes are unrelated. When the domain shifts, they all move in the same direction. The signal
is the mean product of residuals of *different* classes in a window, divided by their mean square. It is near 0 without
drift, for any steady mix of classes; a sudden change of the mix can raise it.

Collapse. A method that fails answers with few classes and no longer agrees with zero-shot. The signals are the number
of classes that the answers of a window use, relative to zero-shot, and how often the two agree.

The third alarm, harm, needs labels. It is in `monitor.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import Prediction, Sample
from cosmic_tta.methods.components.class_balance import effective_classes

MIN_CLASS_IMAGES = 5  # images of a class before its residuals count
MEAN_HORIZON = 100  # images of a class after which its mean becomes a moving average


@dataclass
class AlarmState:
    """What the alarms remember of a stream."""

    class_means: Array  # [K, D] running means by zero-shot class
    class_counts: Ints  # [K]
    residuals: Array  # [W, D] ring buffer
    residual_classes: Ints  # [W]
    residuals_seen: int
    answers: Ints  # [W] ring buffer of the method's answers
    zero_shot: Ints  # [W] zero-shot's answers
    entropies: Array  # [W] of the scores, relative to the largest possible
    seen: int
    drift: float  # newest value of the signal
    drift_since: int  # event that raised the alarm; 0 while it is off
    collapse_since: int

    def validate(self) -> None:
        """Refuse values that no stream can produce."""
        classes = len(self.class_counts)
        rows = (self.residual_classes, self.answers, self.zero_shot)
        if min(self.seen, self.residuals_seen) < 0 or any((row < 0).any() or (row >= classes).any() for row in rows):
            raise SnapshotError("the state of the alarms is damaged: images that never came.")


class Signals(NamedTuple):
    """The signals that the alarms test."""

    drift: float  # mean product of residuals of different classes, divided by their mean square
    agreement: float  # share of the last answers that equal zero-shot's
    variety: float  # number of classes that the last answers use, relative to zero-shot
    entropy: float  # mean of the last answers, relative to the largest possible


class Alarm(NamedTuple):
    """An active alarm."""

    kind: str
    since: int  # the event that raised it
    detail: str


@dataclass(frozen=True)
class AlarmPolicy:
    """Decides when a session raises an alarm: `drift` of its images or `collapse` of its answers.

    Args:
        window: number of images that the signals are computed over.
        drift: a drift signal above this value raises the alarm; below half of it, the alarm ends.
        variety: class variety below this value raises the alarm of collapse, if `agreement` is low as well.
        agreement: agreement with zero-shot below this value.
        test_every: images between two tests.

    Examples:
        >>> from cosmic_tta import ZeroShot
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import AlarmPolicy
        >>> pack, method, policy = superclass_pack(0, images=300, views=1, dim=8), ZeroShot(), AlarmPolicy()
        >>> task = pack.task()
        >>> state, alarm_state = method.init(task), policy.init(task.classes, task.dim)
        >>> for index in range(len(pack)):
        ...     sample = pack.sample(index)
        ...     _ = policy.update(alarm_state, sample, method.step(state, sample))
        >>> policy.alarms(alarm_state, task.class_names)
        []
        >>> policy.signals(alarm_state).agreement
        1.0
    """

    window: int = 160
    drift: float = 0.04
    variety: float = 0.5
    agreement: float = 0.5
    test_every: int = 8

    def init(self, classes: int, width: int) -> AlarmState:
        """Return the state before the first image; `width` is that of the CLIP features."""
        empty = np.zeros(self.window, np.int64)
        return AlarmState(
            class_means=np.zeros((classes, width), np.float32),
            class_counts=np.zeros(classes, np.int64),
            residuals=np.zeros((self.window, width), np.float32),
            residual_classes=empty.copy(),
            residuals_seen=0,
            answers=empty.copy(),
            zero_shot=empty.copy(),
            entropies=np.zeros(self.window, np.float32),
            seen=0,
            drift=0.0,
            drift_since=0,
            collapse_since=0,
        )

    def update(self, state: AlarmState, sample: Sample, prediction: Prediction, number: int | None = None) -> float:
        """Add an image and its answer, and raise or end alarms.

        Args:
            state: changed in place.
            sample: the image.
            prediction: the answer.
            number: event number that an alarm names; by default the number of images.

        Returns:
            The entropy of the answer, relative to the largest possible.
        """
        scores, zero_shot = prediction.scores, int(prediction.parts["zero_shot"].argmax())
        row = state.seen % self.window
        state.answers[row], state.zero_shot[row] = prediction.label, zero_shot
        state.entropies[row] = entropy = _relative_entropy(scores)
        state.seen += 1
        if state.class_counts[zero_shot] >= MIN_CLASS_IMAGES:
            row = state.residuals_seen % self.window
            state.residuals[row] = sample.plain - state.class_means[zero_shot]
            state.residual_classes[row] = zero_shot
            state.residuals_seen += 1
        state.class_counts[zero_shot] += 1
        rate = np.float32(1 / min(int(state.class_counts[zero_shot]), MEAN_HORIZON))
        state.class_means[zero_shot] += rate * (sample.plain - state.class_means[zero_shot])
        if state.seen % self.test_every == 0:
            self._test(state, state.seen if number is None else number)
        return entropy

    def signals(self, state: AlarmState) -> Signals:
        """Return the current signals."""
        rows = min(state.seen, self.window)
        if not rows:
            return Signals(0.0, 1.0, 1.0, 0.0)
        answers, zero_shot = state.answers[:rows], state.zero_shot[:rows]
        classes = len(state.class_counts)
        used, reference = (effective_classes(np.bincount(row, minlength=classes)) for row in (answers, zero_shot))
        return Signals(
            state.drift,
            float((answers == zero_shot).mean()),
            used / reference,
            float(state.entropies[:rows].mean()),
        )

    def alarms(self, state: AlarmState, class_names: Sequence[str]) -> list[Alarm]:
        """Return the active alarms, each with a sentence for people."""
        found, signals = [], self.signals(state)
        if state.drift_since:
            detail = (
                f"{signals.drift:.0%} of what separates the last {self.window} images from their class means is "
                "common to all classes: the images changed."
            )
            found.append(Alarm("drift", state.drift_since, detail))
        if state.collapse_since:
            most = class_names[int(np.bincount(state.answers).argmax())]
            detail = (
                f"the last {self.window} answers agree with zero-shot in {signals.agreement:.0%} and are "
                f"mostly {most!r}."
            )
            found.append(Alarm("collapse", state.collapse_since, detail))
        return found

    def _test(self, state: AlarmState, number: int) -> None:
        drift = self._drift(state)
        if drift is not None:
            state.drift = drift
            if drift > self.drift:
                state.drift_since = state.drift_since or number
            elif drift < self.drift / 2:
                state.drift_since = 0
        if state.seen < self.window:
            return
        signals = self.signals(state)
        if signals.variety < self.variety and signals.agreement < self.agreement:
            state.collapse_since = state.collapse_since or number
        else:
            state.collapse_since = 0

    def _drift(self, state: AlarmState) -> float | None:
        """Return the mean product of residuals of different classes, divided by their mean square.

        None while the window is not full, or holds too few pairs of different classes.
        """
        if state.residuals_seen < self.window:
            return None
        classes, index = np.unique(state.residual_classes, return_inverse=True)
        sums = np.zeros((len(classes), state.residuals.shape[1]), np.float64)  # [classes, D]
        np.add.at(sums, index, state.residuals)
        pairs = self.window**2 - int(np.square(np.bincount(index)).sum())
        if pairs < self.window**2 / 4:
            return None
        total = sums.sum(axis=0)
        across = float(total @ total) - float(np.square(sums).sum())
        square = float(np.square(state.residuals, dtype=np.float64).sum()) / self.window
        return across / pairs / max(square, 1e-12)


def _relative_entropy(scores: Array) -> float:
    if len(scores) < 2:
        return 0.0
    positive = scores[scores > 0].astype(np.float64)
    return float(-(positive * np.log(positive)).sum() / np.log(len(scores)))
