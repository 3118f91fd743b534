"""When a session writes its next snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


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
