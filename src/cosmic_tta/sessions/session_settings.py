"""How a session is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.journal.writer import SYNC_POLICIES, SyncPolicy


@dataclass(frozen=True)
class SessionSettings:
    """How a session is kept on disk.

    Args:
        policy: `always` syncs the journal before each answer; `everysec` syncs it once a second, so that a power cut
            may lose the last second. A killed process loses nothing in either case.
        keep: number of snapshots that are kept; those with a note are kept besides.
        every: events between two snapshots.

    Raises:
        SessionError: a value is out of its range.

    Examples:
        >>> from cosmic_tta.sessions import SessionSettings
        >>> SessionSettings(every=100).plain()
        {'policy': 'always', 'keep': 8, 'every': 100}
        >>> SessionSettings(keep=0)
        Traceback (most recent call last):
        ...
        cosmic_tta.core.errors.SessionError: keep must be a whole number, at least 1; given 0.
    """

    policy: SyncPolicy = "always"
    keep: int = 8
    every: int = 500

    def __post_init__(self) -> None:
        for name in ("keep", "every"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SessionError(f"{name} must be a whole number, at least 1; given {value!r}.")
        if self.policy not in SYNC_POLICIES:
            raise SessionError(f"the sync policy must be 'always' or 'everysec'; given {self.policy!r}.")

    def plain(self) -> dict[str, Any]:
        """Return the settings ready for JSON."""
        return {"policy": self.policy, "keep": self.keep, "every": self.every}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Return the settings that a snapshot holds."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise SessionError(f"a session has the settings policy, keep and every; given {sorted(fields)}.") from error
