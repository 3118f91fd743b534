"""RemoteSession: a session that is open in a Ray actor. The session's files are on storage that all machines share.

If the actor's worker or machine dies, `actor_client` starts another actor. It recovers the session from its snapshot
and journal, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from cosmic_tta.core.errors import CosmicError, SessionError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.distributed.actor_client import PATIENCE, ActorClient
from cosmic_tta.distributed.session_actor import NOT_OPEN, ActorReply, SessionDescription
from cosmic_tta.sessions.alarms import Alarm, Signals
from cosmic_tta.sessions.monitor import Monitor
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import SnapshotInfo, TowerLoader
from cosmic_tta.sessions.session_info import HealthSummary, StepResult
from cosmic_tta.sessions.session_settings import SessionSettings


class _RemoteFacts:
    """What is known of the session without a call: from its description and from the last reply."""

    _description: SessionDescription
    _progress = NOT_OPEN

    @property
    def name(self) -> str:
        """The name that its creator gave."""
        return self._description.name

    @property
    def settings(self) -> SessionSettings:
        """Sync policy and snapshot intervals."""
        return self._description.settings

    @property
    def method(self) -> Method[Any]:
        """The method and its parameters."""
        return self._description.method

    @property
    def task(self) -> Task:
        """The classes and their texts."""
        return self._description.task

    @property
    def metadata(self) -> dict[str, Any]:
        """Plain values of its creator."""
        return self._description.metadata

    @property
    def number(self) -> int:
        """The number of the last event."""
        return self._progress.number

    @property
    def seen(self) -> int:
        """The number of samples that were learned from."""
        return self._progress.seen

    @property
    def paused(self) -> bool:
        """Whether it answers without learning."""
        return self._progress.paused

    @property
    def warnings(self) -> list[str]:
        """What went wrong without harm, the latest last."""
        return self._progress.warnings

    @property
    def health(self) -> HealthSummary:
        """Fallback, accuracies and active alarms."""
        return self._progress.health


class RemoteSession(_RemoteFacts):
    """A session in a Ray actor, with the members of `Session`, which documents them.

    The process must be connected to a cluster. One thread at a time may call the session. Every event happens once,
    even if the actor dies during the call.

    Args:
        folder: Folder of a session, which must have the same path on every machine of the cluster.
        tower: Loads the text tower of a task, for methods that learn prompts.
        patience: Seconds in which a session that lost its worker must answer again.

    Raises:
        SessionError: The folder has no session that can be opened.

    Examples:
        >>> with connect_cluster("auto"):  # doctest: +SKIP
        ...     with RemoteSession.create("/shared/flowers", "flowers", task, make_method("tda")) as session:
        ...         session.step(samples)
    """

    parallel_opens: ClassVar[int] = 16

    def __init__(self, folder: Path, *, tower: TowerLoader | None = None, patience: float = PATIENCE) -> None:
        self.folder, self.closed = folder, False
        self._actor = ActorClient(folder, tower, patience)
        try:
            self._read_description()
        except CosmicError:
            self.abandon()
            raise

    @classmethod
    def create(
        cls,
        folder: Path | str,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        tower: TowerLoader | None = None,
        **options: Any,
    ) -> Self:
        """Create a session in a new folder; the options are those of `Session.create`."""
        Session.create(folder, name, task, method, tower=tower, **options).close()
        return cls(Path(folder), tower=tower)

    @classmethod
    def open(cls, folder: Path | str, *, tower: TowerLoader | None = None, recover: bool = False) -> Self:
        """Open the session of a folder in an actor."""
        if recover:
            Session.open(folder, tower=tower, recover=True).close()
        return cls(Path(folder), tower=tower)

    @classmethod
    def import_(
        cls, file: Path | str, folder: Path | str, name: str | None = None, *, tower: TowerLoader | None = None
    ) -> Self:
        """Create a session from an exported file."""
        Session.import_(file, folder, name, tower=tower).close()
        return cls(Path(folder), tower=tower)

    # Reads.

    @property
    def location(self) -> tuple[str, int]:
        """The node and the process that have the session open."""
        location: tuple[str, int] = self._call("location")
        return location

    @property
    def monitor(self) -> Monitor:
        """Answers, labels and counts."""
        monitor: Monitor = self._call("read", "monitor")
        return monitor

    @property
    def state(self) -> State:
        """The state of the method."""
        state: State = self._call("read", "state")
        return state

    @property
    def sources(self) -> dict[str, list[int]]:
        """The sources that were learned from."""
        sources: dict[str, list[int]] = self._call("read", "sources")
        return sources

    @property
    def not_learned(self) -> dict[str, int]:
        """The number of samples that were not learned from, by reason."""
        counts: dict[str, int] = self._call("read", "not_learned")
        return counts

    def alarms(self) -> list[Alarm]:
        """Return the active alarms."""
        alarms: list[Alarm] = self._call("call", "alarms")
        return alarms

    def signals(self) -> Signals:
        """Return the signals that the alarms test."""
        signals: Signals = self._call("call", "signals")
        return signals

    def digest(self) -> str:
        """Return a fingerprint of state, task and monitor."""
        return str(self._call("call", "digest"))

    def peek(self, samples: Iterable[Sample]) -> list[Prediction]:
        """Answer samples without learning."""
        predictions: list[Prediction] = self._call("peek", list(samples))
        return predictions

    # Events. Each is done once, even if the actor dies meanwhile.

    def step(
        self,
        samples: Iterable[Sample],
        *,
        sources: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[StepResult]:
        """Learn from samples and answer them. The events are on disk on return."""
        samples = list(samples)
        if not samples:
            return []
        options = {"sources": sources, "tags": tags}
        results: list[StepResult] = self._call_once("step", self.number, samples, options)
        return results

    def labels(self, labels: Iterable[tuple[int, str]]) -> None:
        """Report the true classes of answers."""
        self._change("labels", list(labels))

    def pause(self) -> None:
        """Stop learning."""
        self._change("pause")

    def resume(self) -> None:
        """Continue learning."""
        self._change("resume")

    def reset(self) -> None:
        """Forget everything that was learned."""
        self._change("reset")

    def roll_back(self, snapshot: str) -> None:
        """Return to the adaptation state of a snapshot."""
        self._change("roll_back", snapshot)
        self._read_description()

    def forget_source(self, source: str) -> None:
        """Undo what the samples of a source taught."""
        self._change("forget_source", source)

    def change_classes(
        self, task: Task, renamed: Mapping[str, str] | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Continue with other classes."""
        self._change("change_classes", task, renamed, metadata=metadata)
        self._read_description()

    # Files.

    def snapshot(self, note: str = "") -> SnapshotInfo:
        """Write a snapshot."""
        info: SnapshotInfo = self._call("call", "snapshot", note)
        return info

    def snapshots(self) -> list[SnapshotInfo]:
        """List the snapshots, the newest first."""
        infos: list[SnapshotInfo] = self._call("call", "snapshots")
        return infos

    def drop_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot."""
        self._call("call", "drop_snapshot", snapshot)

    def export(self, file: Path | str) -> None:
        """Write the session to one file."""
        write_atomic(Path(file), self._call("export"))

    def tick(self) -> None:
        """With the policy `everysec`, let the actor sync if the last sync is a second ago."""
        if self.settings.policy != "always" and not self.closed:
            self._actor.notify("call", "tick")

    def close(self) -> None:
        """Let the actor sync and close the session, and end the actor."""
        if not self.closed:
            self._call("call", "close")
            self.abandon()

    def abandon(self) -> None:
        """Kill the actor."""
        self.closed = True
        self._actor.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls of the actor.

    def _change(self, name: str, *arguments: Any, **options: Any) -> None:
        self._call_once("change", self.number, name, arguments, options)

    def _read_description(self) -> None:
        self._description = self._call("describe")

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._result(self._actor.call, name, *arguments)

    def _call_once(self, name: str, *arguments: Any) -> Any:
        return self._result(self._actor.call_once, name, *arguments)

    def _result(self, call: Callable[..., ActorReply], *arguments: Any) -> Any:
        if self.closed:
            raise SessionError(f"the session {self.name!r} was closed; open it again.")
        reply = call(*arguments)
        if reply.progress.number >= 0:  # else the actor could not open the session
            self._progress = reply.progress
        if isinstance(reply.result, CosmicError):
            raise reply.result
        return reply.result
