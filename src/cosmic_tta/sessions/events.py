"""The kinds of events that a session writes to its journal."""

from __future__ import annotations

from cosmic_tta.core.types import Sample
from cosmic_tta.sessions.journal.format import Record

STEP = "step"
PAUSED_STEP = "paused_step"  # a step that was answered and not learned from
PAUSED = "paused"
RESUMED = "resumed"
LABELLED = "labelled"
CLASSES_CHANGED = "classes_changed"
RESET = "reset"
ROLLED_BACK = "rolled_back"
SOURCE_FORGOTTEN = "source_forgotten"

SAMPLE_EVENTS = (STEP, PAUSED_STEP)
REBUILD_EVENTS = (ROLLED_BACK, SOURCE_FORGOTTEN)  # the state after them is rebuilt from older events
REPLACE_EVENTS = (RESET, *REBUILD_EVENTS)  # the state after them does not continue the one before


def sample_record(kind: str, sample: Sample, source: str | None, tag: str | None) -> Record:
    """Return the event of one sample."""
    meta = {name: value for name, value in (("source", source), ("tag", tag)) if value is not None}
    arrays = {"clip": sample.clip} if sample.aux is None else {"clip": sample.clip, "aux": sample.aux}
    return Record(kind, meta, arrays)
