"""The event of a session whose classes change, and its next task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cosmic_tta.core.errors import SessionError
from cosmic_tta.core.types import Task
from cosmic_tta.sessions.class_mapping import surviving_names
from cosmic_tta.sessions.events import CLASSES_CHANGED
from cosmic_tta.sessions.input_checks import checked_metadata
from cosmic_tta.sessions.journal.format import Record

TEXT_TOLERANCE = 1e-3  # between two encodings of the same class text


def class_change(
    now: Task, wanted: Task, renamed: Mapping[str, str] | None, metadata: Mapping[str, Any] | None
) -> Record:
    """Return the event of a change to other classes; `metadata` replaces the session's, if given."""
    renamed = dict(renamed or {})
    task = next_task(now, wanted, renamed)
    meta: dict[str, Any] = {"class_names": list(task.class_names), "renamed": renamed}
    if metadata is not None:
        meta["metadata"] = checked_metadata(metadata)
    return Record(CLASSES_CHANGED, meta, {"text": task.text})


def next_task(now: Task, wanted: Task, renamed: Mapping[str, str]) -> Task:
    """Return the task that a session continues with.

    A class that keeps its name keeps its text features to the bit.

    Args:
        now: the task of the session.
        wanted: the task with the new classes.
        renamed: new names of old classes.

    Raises:
        SessionError: the change needs a new stream: other encoders, another scale, or another text of a class.
        InputError: `renamed` names a class that does not exist.
    """
    for part in ("logit_scale", "encoder", "aux_encoder"):
        if getattr(wanted, part) != getattr(now, part):
            given, expected = getattr(wanted, part), getattr(now, part)
            raise SessionError(f"{part} is {given!r}, but this stream has {expected!r}: create a new stream.")
    if wanted.dim != now.dim:
        raise SessionError(
            f"the class texts are {wanted.dim} wide, but those of this stream are {now.dim} wide: create a new stream."
        )
    text = wanted.text.copy()
    for old, new in surviving_names(now, wanted, renamed).items():
        if old == new:
            before, row = now.text[now.class_names.index(old)], wanted.class_names.index(new)
            if float(np.abs(before - text[row]).max()) > TEXT_TOLERANCE:
                raise SessionError(f"the text of {old!r} differs from the one in this stream: create a new stream.")
            text[row] = before
    return replace(wanted, text=text, aux_dim=now.aux_dim)
