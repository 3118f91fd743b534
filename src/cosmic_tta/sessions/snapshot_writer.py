"""Writes the snapshots of a session when they are due, and removes old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cosmic_tta.core import files
from cosmic_tta.core.errors import StorageError
from cosmic_tta.sessions import retention
from cosmic_tta.sessions.journal.writer import JournalWriter
from cosmic_tta.sessions.session_file import SessionSnapshot, SnapshotInfo, read_info, snapshot_path, write
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.snapshot_schedule import SnapshotSchedule

MAX_WARNINGS = 20


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
