"""SessionBackend: what a store and the service use of a session, whichever process has it open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.alarms import Alarm, Signals
from cosmic_tta.sessions.journal.writer import SyncPolicy
from cosmic_tta.sessions.monitor import Monitor
from cosmic_tta.sessions.session_file import SnapshotInfo, TowerLoader
from cosmic_tta.sessions.session_info import HealthSummary, StepResult
from cosmic_tta.sessions.session_settings import SessionSettings


class SessionFacts(Protocol):
    """What can be read of a session without a request to another process."""

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        ...

    @property
    def name(self) -> str:
        """The name that its creator gave."""
        ...

    @property
    def settings(self) -> SessionSettings:
        """Sync policy and snapshot intervals."""
        ...

    @property
    def method(self) -> Method[Any]:
        """The method and its parameters."""
        ...

    @property
    def task(self) -> Task:
        """The classes and their texts."""
        ...

    @property
    def metadata(self) -> dict[str, Any]:
        """Plain values of its creator."""
        ...

    @property
    def number(self) -> int:
        """The number of the last event."""
        ...

    @property
    def seen(self) -> int:
        """The number of samples that were learned from."""
        ...

    @property
    def paused(self) -> bool:
        """Whether it answers without learning."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it must be opened again."""
        ...

    @property
    def warnings(self) -> list[str]:
        """What went wrong without harm, the latest last."""
        ...

    @property
    def health(self) -> HealthSummary:
        """Fallback, accuracies and active alarms."""
        ...


class SessionBackend(SessionFacts, Protocol):
    """A session. `Session` has it open in this process, `RemoteSession` in a worker of a Ray cluster.

    `Session` documents what the members do.
    """

    parallel_opens: ClassVar[int]  # sessions that a store opens at the same time

    @classmethod
    def create(
        cls,
        folder: Path | str,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        guard: AdmissionPolicy | None = None,
        policy: SyncPolicy = "always",
        keep: int = 8,
        every: int = 500,
        tower: TowerLoader | None = None,
    ) -> Self:
        """Create a session in a new folder."""
        ...

    @classmethod
    def open(cls, folder: Path | str, *, tower: TowerLoader | None = None, recover: bool = False) -> Self:
        """Open the session of a folder."""
        ...

    @classmethod
    def import_(
        cls, file: Path | str, folder: Path | str, name: str | None = None, *, tower: TowerLoader | None = None
    ) -> Self:
        """Create a session from an exported file."""
        ...

    @property
    def monitor(self) -> Monitor:
        """Answers, labels and counts."""
        ...

    @property
    def state(self) -> State:
        """The state of the method."""
        ...

    @property
    def sources(self) -> dict[str, list[int]]:
        """The sources that were learned from."""
        ...

    @property
    def not_learned(self) -> dict[str, int]:
        """The number of samples that were not learned from, by reason."""
        ...

    def alarms(self) -> list[Alarm]:
        """Return the active alarms."""
        ...

    def signals(self) -> Signals:
        """Return the signals that the alarms test."""
        ...

    def digest(self) -> str:
        """Return a fingerprint of state, task and monitor."""
        ...

    def step(
        self,
        samples: Iterable[Sample],
        *,
        sources: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[StepResult]:
        """Learn from samples and answer them."""
        ...

    def peek(self, samples: Iterable[Sample]) -> list[Prediction]:
        """Answer samples without learning."""
        ...

    def labels(self, labels: Iterable[tuple[int, str]]) -> None:
        """Report the true classes of answers."""
        ...

    def pause(self) -> None:
        """Stop learning."""
        ...

    def resume(self) -> None:
        """Continue learning."""
        ...

    def reset(self) -> None:
        """Forget everything that was learned."""
        ...

    def roll_back(self, snapshot: str) -> None:
        """Return to the adaptation state of a snapshot."""
        ...

    def forget_source(self, source: str) -> None:
        """Undo what the samples of a source taught."""
        ...

    def change_classes(
        self, task: Task, renamed: Mapping[str, str] | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Continue with other classes."""
        ...

    def snapshot(self, note: str = "") -> SnapshotInfo:
        """Write a snapshot."""
        ...

    def snapshots(self) -> list[SnapshotInfo]:
        """List the snapshots, the newest first."""
        ...

    def drop_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot."""
        ...

    def export(self, file: Path | str) -> None:
        """Write the session to one file."""
        ...

    def tick(self) -> None:
        """Sync the journal if its policy is `everysec` and the last sync is a second ago."""
        ...

    def close(self) -> None:
        """Sync the journal and let others open the session."""
        ...

    def abandon(self) -> None:
        """Release the files at once, as a killed process does."""
        ...
