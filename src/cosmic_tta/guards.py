"""A guard decides which samples may teach: not the same picture again, and not too many from one source.

A guard is a frozen value and what it remembers another one, as with methods. It judges by the sample, its source and
the class texts alone, never by what the method has learned: so what it decides does not depend on the method, and a
replay decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task, check_sample
from cosmic_tta.errors import ParameterError, SnapshotError
from cosmic_tta.ops import Array, Ints, dots

Reason = Literal["", "paused", "duplicate", "quota"]
MOST_PLACES = 8192  # pictures that are remembered in all
ACTIVE = 256  # samples after which a source that no longer comes crowds nobody, and nobody crowds it
S = TypeVar("S", bound=State)


@dataclass
class Remembered:
    """The pictures that taught last, the longest unseen leaves first."""

    clip: Array  # [M, D] plain views
    aux: Array | None  # [M, E]
    label: Ints  # [M] the class that zero-shot gave it; -1 if that is gone
    source: Ints  # [M] a number for its source; 0 for none
    seen: Ints  # [M] when it last came; 0: an empty place
    active: Ints  # [M] when its source last came, with whatever picture
    time: int  # samples that were judged

    def validate(self) -> None:
        """Refuse what no stream can leave behind."""
        times = (self.seen, self.active)
        if self.time < 0 or any((one < 0).any() or (one > self.time).any() for one in times):
            raise SnapshotError("what the guard remembers is damaged: pictures that never came.")


class Judged(NamedTuple):
    """A prediction, and why its sample did not teach; empty if it did."""

    prediction: Prediction
    reason: Reason


@dataclass(frozen=True)
class Guard:
    """Which samples may teach a method.

    Args:
        alike: two pictures are the same if their features are at least so similar, in each space that there is. A
            picture that comes again is answered and not learned from, as long as it is remembered; coming again,
            it stays so.
        quota: where several sources teach a class, the most of its places that one of them may hold, unless the
            others hold as many. A source that has not come for a while no longer counts. Samples without a source
            have no quota.
        places: pictures a class that are remembered.
    """

    alike: float = 0.99
    quota: float = 0.5
    places: int = 16

    def __post_init__(self) -> None:
        for name, low, high in (("alike", 0.5, 1.0), ("quota", 0.0, 1.0), ("places", 1, 1024)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ParameterError(f"guard: {name} must be from {low:g} to {high:g}; given {value!r}.")

    def init(self, task: Task) -> Remembered:
        """Make the memory of a guard that has seen nothing."""
        places = min(MOST_PLACES, self.places * task.classes)
        return Remembered(
            clip=np.zeros((places, task.dim), np.float32),
            aux=None if task.aux_dim is None else np.zeros((places, task.aux_dim), np.float32),
            label=np.zeros(places, np.int64),
            source=np.zeros(places, np.int64),
            seen=np.zeros(places, np.int64),
            active=np.zeros(places, np.int64),
            time=0,
        )

    def carry(self, remembered: Remembered, task: Task, places: Ints) -> Remembered:
        """Return what is remembered, for other classes; `places` tells which one of the old each was, -1 for none."""
        carried = self.init(task)
        order = np.argsort(-remembered.seen, kind="stable")[: len(carried.seen)]  # the latest, if there is less room
        order = order[remembered.seen[order] > 0]
        now = np.full(int(max(remembered.label.max(initial=0), places.max(initial=0))) + 1, -1, np.int64)
        now[places[places >= 0]] = np.flatnonzero(places >= 0)
        for name in ("clip", "aux", "source", "seen", "active"):
            rows = getattr(remembered, name)
            if rows is not None:
                kept = np.zeros((len(carried.seen), *rows.shape[1:]), rows.dtype)
                kept[: len(order)] = rows[order]
                setattr(carried, name, kept)
        carried.label[: len(order)] = now[remembered.label[order]]
        carried.time = remembered.time
        return carried

    def judge(self, remembered: Remembered, task: Task, sample: Sample, source: str | None = None) -> Reason:
        """Say whether a sample may teach, and take note of it."""
        if remembered.aux is None and sample.aux is not None:  # the first sample tells the width
            remembered.aux = np.zeros((len(remembered.seen), len(sample.aux)), np.float32)
        remembered.time += 1
        number = source_number(source)
        remembered.active[(remembered.source == number) & (remembered.seen > 0)] = remembered.time
        twin = self._twin(remembered, sample)
        if twin is not None:
            remembered.seen[twin] = remembered.time
            return "duplicate"
        label = int(dots(task.unit_text, sample.clip[:1])[0].argmax())
        if number and self._exhausted(remembered, label, number):
            return "quota"
        place = int(remembered.seen.argmin())  # an empty one, or the longest unseen
        remembered.clip[place] = sample.plain
        if remembered.aux is not None and sample.aux is not None:
            remembered.aux[place] = sample.aux
        remembered.label[place], remembered.source[place] = label, number
        remembered.seen[place] = remembered.active[place] = remembered.time
        return ""

    def _twin(self, remembered: Remembered, sample: Sample) -> int | None:
        """Return the place of the same picture, if it is remembered."""
        alike = dots(remembered.clip, sample.clip[:1])[0]  # [M]
        if remembered.aux is not None and sample.aux is not None:
            alike = np.minimum(alike, dots(remembered.aux, sample.aux[None])[0])
        place = int(alike.argmax())
        return place if alike[place] >= self.alike else None

    def _exhausted(self, remembered: Remembered, label: int, source: int) -> bool:
        """Whether a source holds its quota of a class's places, and more than all others together that still come."""
        here = (remembered.seen > 0) & (remembered.label == label)
        mine = remembered.source == source
        own = int((here & mine).sum())
        others = int((here & ~mine & (remembered.active > remembered.time - ACTIVE)).sum())
        return bool(others) and own >= max(1.0, self.quota * self.places) and own > others


def source_number(source: str | None) -> int:
    """Return a number for the name of a source: 0 for none."""
    if not source:
        return 0
    return int.from_bytes(blake2b(source.encode(), digest_size=7).digest()) + 1


def guarded_steps(
    method: Method[S],
    state: S,
    reasons: Sequence[Reason],
    samples: Iterable[Sample],
) -> list[Judged]:
    """Step through a block of which some samples must not teach: those are only looked at, in their turn."""
    found: list[Judged] = []
    teaching: list[Sample] = []

    def teach() -> None:
        found.extend(Judged(prediction, "") for prediction in method.steps(state, teaching))
        teaching.clear()

    for reason, sample in zip(reasons, samples, strict=True):
        if reason:
            teach()
            found.append(Judged(method.peek(state, sample), reason))
        else:
            teaching.append(sample)
    teach()
    return found


def guarded_step(
    method: Method[Any], state: Any, guard: Guard, remembered: Remembered, sample: Sample, source: str | None = None
) -> Judged:
    """Judge a sample, then learn from it or only look at it."""
    check_sample(state, sample)
    reason = guard.judge(remembered, state.task, sample, source)
    return Judged(method.peek(state, sample) if reason else method.step(state, sample), reason)
