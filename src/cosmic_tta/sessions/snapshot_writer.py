"""Writes the snapshots of a session when they are due, and removes old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from cosmic_tta.core import files
from cosmic_tta.core.errors import StorageError
from cosmic_tta.sessions import retention
from cosmic_tta.sessions.journal.writer import JournalWriter
from cosmic_tta.sessions.session_file import SessionSnapshot, SnapshotInfo, read_info, snapshot_path, write
from cosmic_tta.sessions.session_settings import SessionSettings

MAX_WARNINGS = 20


@dataclass(frozen=True)
class SnapshotSchedule:
    """When the next snapshot is due, and whether it may wait.

    A snapshot is due `every` events after the last one. After a roll back or a forgotten source it is required:
    until it is written, a restart has to rebuild the state from older snapshots, so none of them may be removed. A
    snapshot that fails is tried again a tenth of the interval later, and stays required.

    >>> schedule = SnapshotSchedule.after(100, every=50)
    >>> [schedule.is_due(number) for number in (149, 150)]
    [False, True]
    >>> schedule = schedule.require()
    >>> schedule.is_due(110), schedule.required
    (True, True)
    >>> schedule = schedule.postpone(110)
    >>> schedule.is_due(114), schedule.is_due(115), schedule.required
    (False, True, True)
    """

    every: int
    due_at: int  # number of the first event after which a snapshot is due
    required: bool = False

    @classmethod
    def after(cls, number: int, every: int) -> Self:
        """Return the schedule once the snapshot after an event is on disk."""
        return cls(every, number + every)

    def is_due(self, number: int) -> bool:
        """Return whether a snapshot is due after an event."""
        return number >= self.due_at

    def require(self) -> Self:
        """Return the schedule when a snapshot must follow at once."""
        return replace(self, due_at=0, required=True)

    def postpone(self, number: int) -> Self:
        """Return the schedule when the snapshot after an event failed."""
        return replace(self, due_at=number + max(1, self.every // 10))


class SnapshotWriter:
    """Writes snapshots into the folder of a session.

    Args:
        folder: of the session.
        settings: how many snapshots are kept, and the events between two of them.
        journal: begins a new segment at each snapshot.
        last: event number of the newest snapshot.
        warnings: to begin with; failures that harm nothing are added.
    """

    def __init__(
        self, folder: Path, settings: SessionSettings, journal: JournalWriter, last: int, warnings: list[str]
    ) -> None:
        self.folder, self.settings, self.journal, self.warnings = folder, settings, journal, warnings
        self.schedule = SnapshotSchedule.after(last, settings.every)

    def write(self, snapshot: SessionSnapshot) -> SnapshotInfo:
        """Write a snapshot and remove those that are no longer needed; one without a note replaces none."""
        path = snapshot_path(self.folder, snapshot.number)
        self.journal.rotate()  # first: whoever reads the snapshot must find the segment behind it
        if snapshot.note or not path.exists():
            write(path, snapshot)
        self.schedule = SnapshotSchedule.after(snapshot.number, self.settings.every)
        try:
            retention.prune(self.folder, self.settings.keep, self.settings.every)
        except StorageError as error:
            self._warn(f"pruning: {error}")
        return read_info(path)

    def write_if_due(self, current: Callable[[], SessionSnapshot], *, required: bool = False) -> None:
        """Write a snapshot after an event if it is due; `required` makes it due now.

        The event is on disk already, so a failure here is only a warning.
        """
        if required:
            self.schedule = self.schedule.require()
        number = self.journal.number
        try:
            if self.schedule.is_due(number):
                self.write(current())
            elif self.journal.segment_is_full:
                self.journal.rotate()
        except StorageError as error:
            self.schedule = self.schedule.postpone(number)
            self._warn(f"after event {number}: {error}")

    def replace(self, corrupt: Iterable[Path], snapshot: SessionSnapshot) -> None:
        """Quarantine corrupt snapshots and write a valid one; a failure is only a warning."""
        try:
            for path in corrupt:
                files.quarantine(path)
            self.write(snapshot)
        except StorageError as error:
            self._warn(str(error))

    def _warn(self, warning: str) -> None:
        self.warnings = [*self.warnings[1 - MAX_WARNINGS :], warning]
