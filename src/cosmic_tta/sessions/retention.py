"""The snapshots of a session's folder: listed, looked up, and removed together with old journal segments."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from cosmic_tta.core import files
from cosmic_tta.core.errors import InputError, SessionError, SnapshotError
from cosmic_tta.sessions.journal.format import segments
from cosmic_tta.sessions.session_file import (
    SessionSnapshot,
    SnapshotInfo,
    TowerLoader,
    read,
    read_info,
    snapshot_numbers,
    snapshot_path,
)


def list_snapshots(folder: Path) -> list[SnapshotInfo]:
    """List the snapshots, the newest first; those with an unreadable header are left out."""
    found = []
    for number in snapshot_numbers(folder):
        try:
            found.append(read_info(snapshot_path(folder, number)))
        except SnapshotError:
            continue
    return found


def snapshot_number(folder: Path, snapshot: str) -> int:
    """Return the event number of a snapshot by its id; an id never becomes part of a path."""
    valid = isinstance(snapshot, str) and snapshot.isascii() and snapshot.isdecimal() and len(snapshot) <= 20
    if not valid or int(snapshot) not in snapshot_numbers(folder):
        raise InputError(f"no snapshot {snapshot!r:.80}: it may have been pruned; see the list of snapshots.")
    return int(snapshot)


def read_snapshot(folder: Path, snapshot: str, stream_id: str, tower: TowerLoader | None) -> SessionSnapshot:
    """Read a snapshot by its id."""
    number = snapshot_number(folder, snapshot)
    try:
        return read(snapshot_path(folder, number), stream_id, tower)
    except SnapshotError as error:
        raise SessionError(f"cannot read the snapshot {snapshot!r}: {error}") from error


def remove_snapshot(folder: Path, snapshot: str) -> None:
    """Remove a snapshot; the newest one cannot be removed."""
    number = snapshot_number(folder, snapshot)
    if number == snapshot_numbers(folder)[0]:
        raise SessionError("the newest snapshot cannot be removed: a restart begins with it.")
    files.remove(snapshot_path(folder, number))


def prune(folder: Path, keep: int, every: int) -> None:
    """Remove old snapshots, and the journal segments before them.

    The newest `keep` snapshots stay, and those with a note. The newest one that is at least `(keep - 1) * every`
    events old stays too: so snapshots by hand do not shorten what can be undone. Call this once a new snapshot is on
    disk.
    """
    numbers = snapshot_numbers(folder)
    if not numbers:
        return
    oldest_needed = numbers[0] - (keep - 1) * every
    anchor = next((number for number in numbers if number <= oldest_needed), numbers[-1])
    for number in numbers[keep:]:
        if number != anchor and not _has_note(snapshot_path(folder, number)):
            files.remove(snapshot_path(folder, number))
    for (_, path), (following, _) in pairwise(segments(folder)):
        if following <= anchor + 1:
            files.remove(path)


def _has_note(path: Path) -> bool:
    try:
        return bool(read_info(path).note)
    except SnapshotError:
        return False
