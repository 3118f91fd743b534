"""Session: a durable stream. Every event is on disk before it is answered, and a restart replays the events.

An event is appended to the journal, applied to the adaptation state and observed by the monitor, in this order. A
replay gives the same bits as before (same build, same kind of CPU).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from cosmic_tta.core.errors import CosmicError, InputError, SessionError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Sample, Task
from cosmic_tta.sessions import events, retention
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.class_changes import class_change
from cosmic_tta.sessions.input_checks import check_labels, check_source_count, checked_metadata, checked_names
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.journal.writer import JournalPosition, SyncPolicy
from cosmic_tta.sessions.monitor import MAX_NAME_LENGTH, Monitor
from cosmic_tta.sessions.recovery import OpenedFolder, create_folder, open_folder
from cosmic_tta.sessions.replay import History
from cosmic_tta.sessions.session_file import (
    AdaptationState,
    SessionSnapshot,
    SnapshotInfo,
    TowerLoader,
    read,
    write,
)
from cosmic_tta.sessions.session_info import StepResult
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.session_view import SessionView
from cosmic_tta.sessions.snapshot_writer import SnapshotWriter
from cosmic_tta.sessions.transitions import apply_samples, reset_state, with_classes


class Session(SessionView):
    """One durable stream: a method, its state, a monitor and a journal. It has one owner, who calls it in turn.

    Make one with `create`, `open` or `import_`. While a session is open, its folder is locked.

    Examples:
        >>> import tempfile
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import Session
        >>> pack = superclass_pack(0, images=20, views=1, dim=8)
        >>> folder = tempfile.mkdtemp() + "/camera"
        >>> with Session.create(folder, "camera", pack.task(), make_method("tda")) as session:
        ...     results = session.step([pack.sample(0), pack.sample(1)], sources=["door", "gate"])
        >>> [(result.number, result.learned) for result in results]
        [(1, True), (2, True)]
        >>> with Session.open(folder) as session:  # after a restart
        ...     session.forget_source("gate")
        ...     print(session.number, session.seen, sorted(session.sources))
        3 1 ['door']
    """

    parallel_opens: ClassVar[int] = 1

    def __init__(self, opened: OpenedFolder, tower: TowerLoader | None = None) -> None:
        current = opened.recovered.current
        self.folder, self.stream_id, self.name = opened.folder, current.stream_id, current.name
        self.settings = SessionSettings.parse(current.settings)
        self.paused, self.monitor = current.paused, current.monitor
        self._adaptation, self._tower = current.adaptation, tower
        self._journal, self._lock = opened.journal, opened.lock
        self._history = History(self.folder, self.stream_id, tower)
        self._snapshots = SnapshotWriter(
            self.folder, self.settings, self._journal, current.number, opened.recovered.warnings
        )

    # Open and close.

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
        """Create a session.

        Args:
            folder: must not exist yet.
            name: 1 to 200 characters.
            task: the classes and their texts.
            method: the method and its parameters.
            metadata: plain values of the caller, kept with the session.
            guard: which samples may be learned from; None admits all.
            policy: when the journal is synced, see `SessionSettings`.
            keep: number of snapshots that are kept.
            every: events between two snapshots.
            tower: loads the text tower of a task, for methods that learn through it: `text_towers.attach_task_tower`.

        Returns:
            The open session.

        Raises:
            SessionError: a setting is invalid, or the folder exists.
            InputError: the method needs a trained checkpoint, which a session cannot keep.
            StorageError: the disk refused.
        """
        if "checkpoint" in method.needs:
            raise InputError(f"{method.name} has a trained checkpoint, which a session does not keep: use cosmic eval.")
        recent_samples = None if guard is None else guard.init(task)
        checked = checked_metadata(metadata or {})
        adaptation = AdaptationState(method, method.init(task), checked, guard, recent_samples)
        create_folder(Path(folder), name, 0, adaptation, Monitor(), False, SessionSettings(policy, keep, every))
        return cls.open(folder, tower=tower)

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        method: Method[Any] | None = None,
        task: Task | None = None,
        metadata: Mapping[str, Any] | None = None,
        tower: TowerLoader | None = None,
        recover: bool = False,
    ) -> Self:
        """Open a session from its newest valid snapshot and its journal.

        Args:
            folder: of the session.
            method: if given, the session must have this method and these parameters.
            task: if given, it must have these classes, texts and encoders.
            metadata: if given, it must have these values.
            tower: as for `create`.
            recover: of a damaged journal, keep everything before the damage; the rest is renamed to `.damaged`.

        Returns:
            The open session.

        Raises:
            SessionError: there is no session, it is not the expected one, or its files have another format.
            SessionDamagedError: acknowledged events are damaged.
            LockedError: another process has the session open.
        """
        opened = open_folder(Path(folder), method=method, task=task, metadata=metadata, tower=tower, recover=recover)
        session, recovered = cls(opened, tower), opened.recovered
        if recovered.corrupt_snapshots:
            session._snapshots.replace(recovered.corrupt_snapshots, session._current())
        elif recovered.needs_snapshot:
            session._snapshots.write_if_due(session._current, required=True)
        return session

    @classmethod
    def import_(
        cls, file: Path | str, folder: Path | str, name: str | None = None, *, tower: TowerLoader | None = None
    ) -> Self:
        """Create a session from a file that `export` wrote; event numbers continue."""
        given = read(Path(file), tower=tower)
        create_folder(
            Path(folder), name or given.name, given.number, given.adaptation, given.monitor, given.paused,
            SessionSettings.parse(given.settings),
        )  # fmt: skip
        return cls.open(folder, tower=tower)

    def export(self, file: Path | str) -> None:
        """Write the session to one file, from which `import_` makes another."""
        write(Path(file), self._current())

    def close(self) -> None:
        """Sync the journal and unlock the folder."""
        try:
            self._journal.close()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Close the files without a sync, as if the process were killed."""
        self._journal.abandon()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Events.

    def step(
        self,
        samples: Iterable[Sample],
        *,
        sources: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[StepResult]:
        """Learn from samples and answer them; while paused, only answer. The events are on disk on return.

        Args:
            samples: one or more.
            sources: who sent each sample, so that `forget_source` can undo it.
            tags: a word of the caller for each sample, kept with its answer.

        Returns:
            One result per sample.

        Raises:
            InputError: a sample, source or tag is invalid; nothing was changed.
            StorageError: the disk refused; nothing was changed.
        """
        samples = list(samples)
        if not samples:
            return []
        self.method.check_block(self.state, samples)
        sources, tags = checked_names(sources, len(samples), "sources"), checked_names(tags, len(samples), "tags")
        check_source_count(self.sources, sources)
        kind = events.PAUSED_STEP if self.paused or self.monitor.fallback_since else events.STEP
        position = self._journal.position
        numbers = self._journal.append(
            [events.sample_record(kind, *one) for one in zip(samples, sources, tags, strict=True)]
        )
        try:
            predictions = apply_samples(self._adaptation, kind, numbers, samples, sources)
        except BaseException as error:
            self._retract_step(position, error)
            raise
        results, class_names = [], self.task.class_names
        try:
            for number, sample, guarded, source, tag in zip(numbers, samples, predictions, sources, tags, strict=True):
                prediction = self.monitor.answer(number, sample, guarded, source, tag, class_names)
                results.append(StepResult(number, prediction, not guarded.reason, guarded.reason))
        except BaseException:  # the monitor may have counted some samples: only a replay restores it
            self._journal.retract(position)
            self.abandon()
            raise
        self._snapshots.write_if_due(self._current)
        return results

    def _retract_step(self, position: JournalPosition, cause: BaseException) -> None:
        """Remove the records of a step that failed, so that no restart repeats the failure."""
        try:
            self._journal.retract(position)
            self._adaptation = self.adaptation_at(self.number)
        except CosmicError as error:
            self.abandon()
            raise SessionError(f"a step failed and the session had to be closed: {error}; open it again.") from cause

    def label(self, number: int, class_name: str) -> None:
        """Report the true class of an answer to the monitor; no method learns from it."""
        self.labels([(number, class_name)])

    def labels(self, labels: Iterable[tuple[int, str]]) -> None:
        """Report the true classes of several answers, all or none, with one sync."""
        labels = list(labels)
        check_labels(labels, self.monitor, self.task.class_names)
        if labels:
            self._commit_events([Record(events.LABELLED, {"of": number, "class": name}) for number, name in labels])

    def pause(self) -> None:
        """Stop learning; samples are still answered."""
        if not self.paused:
            self._commit_events([Record(events.PAUSED)])

    def resume(self) -> None:
        """Continue learning, also after a fallback to zero-shot."""
        if self.paused or self.monitor.fallback_since:
            self._commit_events([Record(events.RESUMED)])

    def reset(self) -> None:
        """Forget everything that was learned; the monitor and the event numbers continue."""
        self._commit_events([Record(events.RESET)], reset_state(self._adaptation))

    def roll_back(self, snapshot: str) -> None:
        """Return to the adaptation state of a snapshot; the monitor and the event numbers continue."""
        then = retention.read_snapshot(self.folder, snapshot, self.stream_id, self._tower)
        self._commit_events([Record(events.ROLLED_BACK, {"to": then.number})], then.adaptation)

    def forget_source(self, source: str) -> None:
        """Change the adaptation state to what it were if a source had never sent a sample.

        Raises:
            InputError: no sample of that source was learned from.
            SessionError: the snapshots and the journal do not reach back to its first sample.
        """
        if source not in self.sources:
            raise InputError(f"no source {source!r} was learned from; see the list of sources.")
        self._journal.flush()
        adaptation = self._history.adaptation_at(self.number, frozenset([source]))
        self._commit_events([Record(events.SOURCE_FORGOTTEN, {"source": source})], adaptation)

    def change_classes(
        self, task: Task, renamed: Mapping[str, str] | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Continue with other classes; what was learned about a class stays with its name, or its new name.

        Args:
            task: the new classes; a class that stays must have its old text.
            renamed: old name → new name.
            metadata: replaces the session's, if given.

        Raises:
            SessionError: the task has other encoders, another scale, or another text of a class.
        """
        record = class_change(self.task, task, renamed, metadata)
        self._commit_events([record], with_classes(self._adaptation, record))

    def _commit_events(self, records: Sequence[Record], adaptation: AdaptationState | None = None) -> None:
        """Append events that are no samples, apply the adaptation state they lead to, and let the monitor observe."""
        numbers = self._journal.append(records)
        if adaptation is not None:
            self._adaptation = adaptation
        for number, record in zip(numbers, records, strict=True):
            if record.kind in (events.PAUSED, events.RESUMED):
                self.paused = record.kind == events.PAUSED
            self.monitor.observe(number, record)
        rebuilt = records[0].kind in events.REBUILD_EVENTS
        self._snapshots.write_if_due(self._current, required=rebuilt)

    # Snapshots.

    def snapshot(self, note: str = "") -> SnapshotInfo:
        """Write a snapshot; one with a note is kept until it is removed."""
        if not isinstance(note, str) or len(note) > MAX_NAME_LENGTH:
            raise InputError(f"a note has at most {MAX_NAME_LENGTH} characters.")
        return self._snapshots.write(self._current(note))

    def drop_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot; the newest one cannot be removed."""
        retention.snapshot_number(self.folder, snapshot)
        if self._snapshots.schedule.required:
            self.snapshot()
        retention.remove_snapshot(self.folder, snapshot)

    def tick(self) -> None:
        """With the policy `everysec`, sync if the last sync is a second ago. Any thread may call this."""
        self._journal.flush(only_if_due=True)

    def _current(self, note: str = "") -> SessionSnapshot:
        return SessionSnapshot(
            self.stream_id, self.name, self.number, self._journal.chain, self._adaptation, self.monitor, self.paused,
            self.settings.plain(), note,
        )  # fmt: skip
