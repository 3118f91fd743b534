"""What one event does to the adaptation state of a session: samples, a reset, other classes.

A live session and a replay call the same functions, so both give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cosmic_tta.core.types import Sample, Task
from cosmic_tta.sessions import events
from cosmic_tta.sessions.admission import GuardedPrediction, Reason, guarded_steps
from cosmic_tta.sessions.class_mapping import class_map, remap_state, surviving_names
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.session_file import AdaptationState


def apply_samples(
    adaptation: AdaptationState,
    kind: str,
    numbers: Sequence[int],
    samples: Sequence[Sample],
    sources: Sequence[str | None],
) -> list[GuardedPrediction]:
    """Answer samples; learn from those that the guard admits, or from none if the kind is `paused_step`."""
    method, state, guard, recent = adaptation.method, adaptation.state, adaptation.guard, adaptation.recent_samples
    if kind == events.PAUSED_STEP:
        return [GuardedPrediction(method.peek(state, sample), "paused") for sample in samples]
    reasons: list[Reason] = [""] * len(samples)
    if guard is not None and recent is not None:
        reasons = [guard.admit(recent, state.task, *one) for one in zip(samples, sources, strict=True)]
    predictions = guarded_steps(method, state, reasons, samples)
    for number, source in zip(numbers, sources, strict=True):
        if source is not None:
            adaptation.sources.setdefault(source, [number, 0])[1] += 1
    return predictions


def reset_state(adaptation: AdaptationState) -> AdaptationState:
    """Return the adaptation state before anything was learned."""
    task, guard = adaptation.state.task, adaptation.guard
    recent_samples = None if guard is None else guard.init(task)
    return replace(adaptation, state=adaptation.method.init(task), recent_samples=recent_samples, sources={})


def with_classes(adaptation: AdaptationState, record: Record) -> AdaptationState:
    """Return the adaptation state for the classes of a `classes_changed` record."""
    now, meta = adaptation.state.task, record.meta
    class_names = tuple(meta["class_names"])
    task = Task(
        class_names, record.arrays["text"], now.logit_scale, now.aux_dim, now.encoder, now.aux_encoder,
        None if now.tower is None else now.tower.with_classes(class_names),
    )  # fmt: skip
    names = surviving_names(now, task, meta["renamed"])
    method, state = remap_state(adaptation.method, adaptation.state, task, names)
    recent_samples = adaptation.recent_samples
    if adaptation.guard is not None and recent_samples is not None:
        recent_samples = adaptation.guard.remap_classes(recent_samples, state.task, class_map(now, task, names))
    metadata = dict(meta.get("metadata", adaptation.metadata))
    return replace(adaptation, method=method, state=state, recent_samples=recent_samples, metadata=metadata)
