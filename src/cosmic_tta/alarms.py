"""Alarms from label-free signals: the pictures have drifted, or the answers have collapsed.

Drift. Each image leaves a residual: its feature minus the running centre of the class that zero-shot gives it. Images
of one domain leave residuals that have nothing in common across classes; when the domain moves, all move the same
way. The signal is the mean product of residuals of *different* classes in a window, as a share of their mean square:
0 without drift, whatever the mix of classes.

Collapse. A method that has gone astray answers few classes and no longer agrees with zero-shot. The signals are the
share of zero-shot's classes that the answers of a window still use, and how often both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cosmic_tta.balance import effective_classes
from cosmic_tta.core import Prediction, Sample
from cosmic_tta.errors import SnapshotError
from cosmic_tta.ops import Array, Ints

FEWEST = 5  # images of a class before its residuals count
SLOWEST = 100  # images of a class after which its centre only follows


@dataclass
class Watched:
    """What a watch remembers of a stream."""

    centre: Array  # [K, D] running means of the classes that zero-shot gives
    count: Ints  # [K]
    residual: Array  # [W, D] of the last images
    kind: Ints  # [W] their classes
    filled: int  # residuals that ever came
    answer: Ints  # [W] what the method said last
    zero_shot: Ints  # [W] and zero-shot
    entropy: Array  # [W] of the scores, as a share of the largest
    seen: int
    drift: float  # the signals as of now
    drifted: int  # since which event the alarm is on; 0: it is off
    collapsed: int

    def validate(self) -> None:
        """Refuse what no stream can leave behind."""
        classes = len(self.count)
        rows = (self.kind, self.answer, self.zero_shot)
        if min(self.seen, self.filled) < 0 or any((row < 0).any() or (row >= classes).any() for row in rows):
            raise SnapshotError("what the alarms remember is damaged: images that never came.")


class Signals(NamedTuple):
    """What a watch sees now."""

    drift: float  # share of the residuals that images of different classes have in common
    agreement: float  # share of the last answers that are zero-shot's
    variety: float  # classes that the last answers use, as a share of those that zero-shot uses
    entropy: float  # mean of the last answers, as a share of the largest


class Alarm(NamedTuple):
    """An alarm that is on."""

    kind: str
    since: int  # the event that raised it
    detail: str


@dataclass(frozen=True)
class Watch:
    """When to raise an alarm.

    Args:
        window: images that the signals are taken over.
        drift: residuals that have more than this share in common raise the alarm; below half of it, it is off again.
        variety: answers that use less than this share of zero-shot's classes, and ...
        agreement: ... agree with zero-shot less often than this, raise the alarm of collapse.
        every: images from one test of the residuals to the next.
    """

    window: int = 160
    drift: float = 0.04
    variety: float = 0.5
    agreement: float = 0.5
    every: int = 8

    def init(self, classes: int, width: int) -> Watched:
        """Make the memory of a watch that has seen nothing, for so many classes and CLIP features so wide."""
        whole = np.zeros(self.window, np.int64)
        return Watched(
            centre=np.zeros((classes, width), np.float32),
            count=np.zeros(classes, np.int64),
            residual=np.zeros((self.window, width), np.float32),
            kind=whole.copy(),
            filled=0,
            answer=whole.copy(),
            zero_shot=whole.copy(),
            entropy=np.zeros(self.window, np.float32),
            seen=0,
            drift=0.0,
            drifted=0,
            collapsed=0,
        )

    def see(self, watched: Watched, sample: Sample, prediction: Prediction, number: int | None = None) -> float:
        """Take note of an image and its answer, the event of this number; alarms go on and off here.

        Returns the entropy of the answer, as a share of the largest.
        """
        scores, kind = prediction.scores, int(prediction.parts["zero_shot"].argmax())
        at = watched.seen % self.window
        watched.answer[at], watched.zero_shot[at] = prediction.label, kind
        watched.entropy[at] = entropy = _entropy(scores)
        watched.seen += 1
        if watched.count[kind] >= FEWEST:
            place = watched.filled % self.window
            watched.residual[place] = sample.plain - watched.centre[kind]
            watched.kind[place] = kind
            watched.filled += 1
        watched.count[kind] += 1
        step = np.float32(1 / min(int(watched.count[kind]), SLOWEST))
        watched.centre[kind] += step * (sample.plain - watched.centre[kind])
        if watched.seen % self.every == 0:
            self._test(watched, watched.seen if number is None else number)
        return entropy

    def signals(self, watched: Watched) -> Signals:
        """Return what is seen now."""
        rows = min(watched.seen, self.window)
        if not rows:
            return Signals(0.0, 1.0, 1.0, 0.0)
        answer, zero_shot = watched.answer[:rows], watched.zero_shot[:rows]
        classes = len(watched.count)
        used, before = (effective_classes(np.bincount(row, minlength=classes)) for row in (answer, zero_shot))
        return Signals(
            watched.drift,
            float((answer == zero_shot).mean()),
            used / before,
            float(watched.entropy[:rows].mean()),
        )

    def alarms(self, watched: Watched, class_names: Sequence[str]) -> list[Alarm]:
        """Return the alarms that are on, in plain words."""
        found, now = [], self.signals(watched)
        if watched.drifted:
            share = f"{now.drift:.0%} of what sets the last {self.window} images apart from their classes"
            found.append(Alarm("drift", watched.drifted, f"{share} is common to all classes: the pictures changed."))
        if watched.collapsed:
            most = class_names[int(np.bincount(watched.answer).argmax())]
            told = (
                f"the last {self.window} answers agree with zero-shot in {now.agreement:.0%} and are mostly {most!r}."
            )
            found.append(Alarm("collapse", watched.collapsed, told))
        return found

    def _test(self, watched: Watched, number: int) -> None:
        common = self._common(watched)
        if common is not None:
            watched.drift = common
            if common > self.drift:
                watched.drifted = watched.drifted or number
            elif common < self.drift / 2:
                watched.drifted = 0
        if watched.seen < self.window:
            return
        now = self.signals(watched)
        if now.variety < self.variety and now.agreement < self.agreement:
            watched.collapsed = watched.collapsed or number
        else:
            watched.collapsed = 0

    def _common(self, watched: Watched) -> float | None:
        """Return the mean product of residuals of different classes, as a share of their mean square.

        None while the window is not full, or holds too few pairs of different classes.
        """
        if watched.filled < self.window:
            return None
        kinds, place = np.unique(watched.kind, return_inverse=True)
        sums = np.zeros((len(kinds), watched.residual.shape[1]), np.float64)  # [classes, D]
        np.add.at(sums, place, watched.residual)
        pairs = self.window**2 - int(np.square(np.bincount(place)).sum())
        if pairs < self.window**2 / 4:
            return None
        total = sums.sum(axis=0)
        across = float(total @ total) - float(np.square(sums).sum())
        square = float(np.square(watched.residual, dtype=np.float64).sum()) / self.window
        return across / pairs / max(square, 1e-12)


def _entropy(scores: Array) -> float:
    if len(scores) < 2:
        return 0.0
    positive = scores[scores > 0].astype(np.float64)
    return float(-(positive * np.log(positive)).sum() / np.log(len(scores)))
