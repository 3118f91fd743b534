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


def prune(folder: Path, keep: int) -> None:
    """Remove snapshots beyond the newest `keep`, but for those with a note; and segments before the oldest of these.

    To be called when a new snapshot is on disk.
    """
    counted, oldest = 0, None
    for number in snapshot_numbers(folder):
        path = snapshot_path(folder, number)
        try:
            noted = bool(read_info(path).note)
        except SnapshotError:
            noted = False
        if noted and counted >= keep:
            continue
        counted += 1
        if counted <= keep:
            oldest = number
        else:
            disk.remove(path)
    if oldest is not None:
        for (_, path), (following, _) in pairwise(segments(folder)):
            if following <= oldest + 1:
                disk.remove(path)
