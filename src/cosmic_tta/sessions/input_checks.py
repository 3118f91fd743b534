"""Checks of the values that callers give a session: metadata, names of sources and tags, labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cosmic_tta.core.errors import InputError, SessionError
from cosmic_tta.sessions.monitor import MAX_NAME_LENGTH, Monitor

MAX_METADATA_BYTES = 4 << 20  # of JSON
MAX_SOURCES = 4096  # names of sources per session


def checked_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as JSON would give it back.

    Raises:
        SessionError: JSON cannot hold it, or it is too large.
    """
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SessionError(f"metadata must hold plain values, as JSON does: {error}.") from error
    if len(text) > MAX_METADATA_BYTES:
        raise SessionError(f"metadata may have {MAX_METADATA_BYTES} bytes; given {len(text)}.")
    plain: dict[str, Any] = json.loads(text)
    return plain


def checked_names(names: Sequence[str | None] | None, count: int, what: str) -> list[str | None]:
    """Return one name or None per sample; `what` is `sources` or `tags`.

    Raises:
        InputError: there are more or fewer than samples, or one is no valid name.
    """
    if names is None:
        return [None] * count
    found = list(names)
    if isinstance(names, str) or len(found) != count:
        raise InputError(f"{what} must be one for each of the {count} samples; given {len(found)}.")
    for name in found:
        if name is not None and (not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH):
            raise InputError(f"{what} must have 1 to {MAX_NAME_LENGTH} characters, or be None; given {name!r:.80}.")
    return found


def check_source_count(known: Iterable[str], sources: Sequence[str | None]) -> None:
    """Refuse samples whose sources would exceed the number that a session can tell apart."""
    if len({*known, *(source for source in sources if source)}) > MAX_SOURCES:
        raise InputError(f"a session has at most {MAX_SOURCES:,} sources; give fewer names, or none.")


def check_labels(labels: Iterable[tuple[int, str]], monitor: Monitor, class_names: Sequence[str]) -> None:
    """Refuse labels of unknown answers or unknown classes."""
    for number, class_name in labels:
        if type(number) is not int:
            raise InputError(f"a label needs the number of an answer; given {number!r:.80}.")
        monitor.check_number(number)
        if class_name not in class_names:
            raise InputError(f"{class_name!r:.80} is no class of this session; see its list of classes.")
