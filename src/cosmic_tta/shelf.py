"""The snapshots of a session's folder: listed, found, and pruned with the journal by one rule."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from cosmic_tta import disk
from cosmic_tta.errors import InputError, SessionError, SnapshotError
from cosmic_tta.moments import SnapshotInfo, read_info, snapshot_numbers, snapshot_path
from cosmic_tta.records import segments


def listed(folder: Path) -> list[SnapshotInfo]:
    """List the snapshots, the newest first; those whose header cannot be read are left out."""
    found = []
    for number in snapshot_numbers(folder):
        try:
            found.append(read_info(snapshot_path(folder, number)))
        except SnapshotError:
            continue
    return found


def number_of(folder: Path, snapshot: str) -> int:
    """Return the event of a snapshot by its id; no word of a client becomes a path."""
    known = isinstance(snapshot, str) and snapshot.isascii() and snapshot.isdecimal() and len(snapshot) <= 20
    if not known or int(snapshot) not in snapshot_numbers(folder):
        raise InputError(f"no snapshot {snapshot!r:.80}: it may have been pruned; see the list of snapshots.")
    return int(snapshot)


def drop(folder: Path, snapshot: str) -> None:
    """Remove a snapshot; the newest one stays."""
    number = number_of(folder, snapshot)
    if number == snapshot_numbers(folder)[0]:
        raise SessionError("the newest snapshot is what a restart begins with; it stays.")
    disk.remove(snapshot_path(folder, number))


def prune(folder: Path, keep: int, every: int) -> None:
    """Remove what is older than the rule wants, and the segments before it.

    The newest `keep` snapshots stay, those with a note, and the newest one that is `(keep - 1) * every` events back,
    so that however many are made by hand, as much can be undone. To be called when a new snapshot is on disk.
    """
    numbers = snapshot_numbers(folder)
    if not numbers:
        return
    far = numbers[0] - (keep - 1) * every
    anchor = next((number for number in numbers if number <= far), numbers[-1])
    for number in numbers[keep:]:
        if number != anchor and not _noted(snapshot_path(folder, number)):
            disk.remove(snapshot_path(folder, number))
    for (_, path), (following, _) in pairwise(segments(folder)):
        if following <= anchor + 1:
            disk.remove(path)


def _noted(path: Path) -> bool:
    try:
        return bool(read_info(path).note)
    except SnapshotError:
        return False
