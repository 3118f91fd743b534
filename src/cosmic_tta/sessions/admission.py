"""Admission policy (`guard` in the API): which samples of a session may be learned from.

The rule of a method's cache is another one: `ClassCache.try_insert`.

An image that comes again is not learned from twice, and no source may fill a class on its own. The policy is a frozen
value, and what it remembers is another value, as with methods. It decides by the sample, its source and the class
texts, never by what the method has learned. So its decisions do not depend on the method, and a replay repeats them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, dots
from cosmic_tta.core.errors import ParameterError, SnapshotError
from cosmic_tta.core.method import Method, check_sample
from cosmic_tta.core.types import Prediction, Sample, State, Task

Reason = Literal["", "paused", "duplicate", "quota"]
MAX_SLOTS = 8192  # remembered images of all classes
ACTIVE_SAMPLES = 256  # a source that sent none of the last samples no longer counts against the others
S = TypeVar("S", bound=State)


@dataclass
class RecentSamples:
    """The images that were learned from last, of all classes; the one unseen for longest is replaced first."""

    clip: Array  # [M, D] plain views; M is slots × classes, at most MAX_SLOTS
    aux: Array | None  # [M, E]
    zero_shot_class: Ints  # [M]; -1 if that class is gone
    source_id: Ints  # [M]; 0 for no source
    last_seen: Ints  # [M] value of `count` when the image last came; 0 for an empty slot
    source_last_seen: Ints  # [M] value of `count` when its source last sent any image
    count: int  # samples that the policy has decided on

    def validate(self) -> None:
        """Refuse values that no stream can produce."""
        times = (self.last_seen, self.source_last_seen)
        if self.count < 0 or any((one < 0).any() or (one > self.count).any() for one in times):
            raise SnapshotError("the recent samples of the admission policy are damaged: images that never came.")


class GuardedPrediction(NamedTuple):
    """A prediction, and why its sample was not learned from; empty if it was."""

    prediction: Prediction
    reason: Reason


@dataclass(frozen=True)
class AdmissionPolicy:
    """Decides which samples a session may learn from. The others are answered all the same.

    Args:
        duplicate_similarity: cosine similarity from which two images are the same image. With auxiliary features,
            both similarities must reach it. A duplicate is recognised as long as the first image is remembered.
            Each return of the image renews that.
        quota: share of `slots`. A source that has as many remembered images of one zero-shot class, and more than all
            other sources together, adds no more to that class. Other sources count if they sent one of the last 256
            samples; if none counts, there is no quota. Samples without a source have no quota.
        slots: remembered images per class in the mean. The memory is one list that all classes share: it holds
            slots × classes images, at most 8,192.

    Raises:
        ParameterError: a parameter is out of its range.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import AdmissionPolicy
        >>> pack = superclass_pack(0, images=20, views=1, dim=8)
        >>> policy, task = AdmissionPolicy(duplicate_similarity=0.999), pack.task()
        >>> recent = policy.init(task)
        >>> [policy.admit(recent, task, pack.sample(index)) for index in (0, 1, 0)]
        ['', '', 'duplicate']
    """

    duplicate_similarity: float = 0.99
    quota: float = 0.5
    slots: int = 16

    def __post_init__(self) -> None:
        for name, low, high in (("duplicate_similarity", 0.5, 1.0), ("quota", 0.0, 1.0), ("slots", 1, 1024)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ParameterError(f"guard: {name} must be from {low:g} to {high:g}; given {value!r}.")

    def init(self, task: Task) -> RecentSamples:
        """Return an empty memory for a task."""
        slots = min(MAX_SLOTS, self.slots * task.classes)
        return RecentSamples(
            clip=np.zeros((slots, task.dim), np.float32),
            aux=None if task.aux_dim is None else np.zeros((slots, task.aux_dim), np.float32),
            zero_shot_class=np.zeros(slots, np.int64),
            source_id=np.zeros(slots, np.int64),
            last_seen=np.zeros(slots, np.int64),
            source_last_seen=np.zeros(slots, np.int64),
            count=0,
        )

    def remap_classes(self, recent: RecentSamples, task: Task, class_map: Ints) -> RecentSamples:
        """Return the memory for other classes; `class_map` has the old index of each new class, -1 for none."""
        remapped = self.init(task)
        order = np.argsort(-recent.last_seen, kind="stable")[: len(remapped.last_seen)]  # the latest, if slots shrink
        order = order[recent.last_seen[order] > 0]
        old_classes = int(max(recent.zero_shot_class.max(initial=0), class_map.max(initial=0))) + 1
        new_index = np.full(old_classes, -1, np.int64)
        new_index[class_map[class_map >= 0]] = np.flatnonzero(class_map >= 0)
        for name in ("clip", "aux", "source_id", "last_seen", "source_last_seen"):
            rows = getattr(recent, name)
            if rows is not None:
                kept = np.zeros((len(remapped.last_seen), *rows.shape[1:]), rows.dtype)
                kept[: len(order)] = rows[order]
                setattr(remapped, name, kept)
        remapped.zero_shot_class[: len(order)] = new_index[recent.zero_shot_class[order]]
        remapped.count = recent.count
        return remapped

    def admit(self, recent: RecentSamples, task: Task, sample: Sample, source: str | None = None) -> Reason:
        """Return why a sample may not be learned from, empty if it may; remember it in that case."""
        if recent.aux is None and sample.aux is not None:  # the first sample sets the width
            recent.aux = np.zeros((len(recent.last_seen), len(sample.aux)), np.float32)
        recent.count += 1
        source_id = source_number(source)
        recent.source_last_seen[(recent.source_id == source_id) & (recent.last_seen > 0)] = recent.count
        duplicate = self._find_duplicate(recent, sample)
        if duplicate is not None:
            recent.last_seen[duplicate] = recent.count
            return "duplicate"
        zero_shot_class = int(dots(task.unit_text, sample.clip[:1])[0].argmax())
        if source_id and self._quota_used_up(recent, zero_shot_class, source_id):
            return "quota"
        slot = int(recent.last_seen.argmin())  # an empty one, or the one unseen for longest
        recent.clip[slot] = sample.plain
        if recent.aux is not None and sample.aux is not None:
            recent.aux[slot] = sample.aux
        recent.zero_shot_class[slot], recent.source_id[slot] = zero_shot_class, source_id
        recent.last_seen[slot] = recent.source_last_seen[slot] = recent.count
        return ""

    def _find_duplicate(self, recent: RecentSamples, sample: Sample) -> int | None:
        """Return the slot of the same image, None if it is not remembered."""
        similarity = dots(recent.clip, sample.clip[:1])[0]  # [M]
        if recent.aux is not None and sample.aux is not None:
            similarity = np.minimum(similarity, dots(recent.aux, sample.aux[None])[0])
        slot = int(similarity.argmax())
        return slot if similarity[slot] >= self.duplicate_similarity else None

    def _quota_used_up(self, recent: RecentSamples, zero_shot_class: int, source_id: int) -> bool:
        """Return whether a source holds its quota of a class, and more than all other active sources together."""
        same_class = (recent.last_seen > 0) & (recent.zero_shot_class == zero_shot_class)
        same_source = recent.source_id == source_id
        active = recent.source_last_seen > recent.count - ACTIVE_SAMPLES
        own = int((same_class & same_source).sum())
        others = int((same_class & ~same_source & active).sum())
        return bool(others) and own >= max(1.0, self.quota * self.slots) and own > others


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
) -> list[GuardedPrediction]:
    """Answer a block in order; learn only from the samples without a reason against it."""
    found: list[GuardedPrediction] = []
    admitted: list[Sample] = []

    def learn() -> None:
        found.extend(GuardedPrediction(prediction, "") for prediction in method.steps(state, admitted))
        admitted.clear()

    for reason, sample in zip(reasons, samples, strict=True):
        if reason:
            learn()
            found.append(GuardedPrediction(method.peek(state, sample), reason))
        else:
            admitted.append(sample)
    learn()
    return found


def guarded_step(
    method: Method[Any],
    state: Any,
    guard: AdmissionPolicy,
    recent: RecentSamples,
    sample: Sample,
    source: str | None = None,
) -> GuardedPrediction:
    """Answer a sample, and learn from it if the policy admits it."""
    check_sample(state, sample)
    reason = guard.admit(recent, state.task, sample, source)
    return GuardedPrediction(method.peek(state, sample) if reason else method.step(state, sample), reason)
