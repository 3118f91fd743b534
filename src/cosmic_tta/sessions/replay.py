"""Rebuilds the state of a session from its events, also at an earlier event or without some sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cosmic_tta.core.errors import SessionDamagedError, SessionError, SnapshotError
from cosmic_tta.core.types import Sample
from cosmic_tta.sessions import events
from cosmic_tta.sessions.journal.format import Record, segments
from cosmic_tta.sessions.journal.reader import JournalEntry, JournalReader, damage_error
from cosmic_tta.sessions.monitor import Monitor
from cosmic_tta.sessions.session_file import (
    AdaptationState,
    SessionSnapshot,
    TowerLoader,
    read,
    snapshot_numbers,
    snapshot_path,
)
from cosmic_tta.sessions.transitions import apply_samples, reset_state, with_classes

BLOCK_SIZE = 64  # samples that a replay steps through at once


class EventReplayer:
    """Applies events in order. It steps through samples in blocks, which gives the same bits.

    Args:
        history: rebuilds earlier states, for events that go back.
        number: of the last event that `adaptation` includes.
        adaptation: the state to start with.
        paused: whether the session was paused then.
        monitor: follows the events if given; without it, paused steps are skipped.
        excluded: sources whose samples are left out.
    """

    def __init__(
        self,
        history: History,
        number: int,
        adaptation: AdaptationState,
        paused: bool = False,
        monitor: Monitor | None = None,
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        self.history, self.number, self.adaptation = history, number, adaptation
        self.paused, self.monitor, self.excluded = paused, monitor, excluded
        self.needs_snapshot = False  # an event went back to older ones: a snapshot spares the next replay that
        self._kind, self._block = "", list[tuple[int, Sample, str | None, str | None]]()

    def apply(self, number: int, record: Record) -> None:
        """Apply an event, or queue it if it is a sample.

        Raises:
            SessionDamagedError: the event cannot be applied.
        """
        kind, meta = record.kind, record.meta
        try:
            if kind in events.SAMPLE_EVENTS:
                if kind != self._kind or len(self._block) == BLOCK_SIZE:
                    self.flush()
                self._kind = kind
                skipped = kind == events.PAUSED_STEP and self.monitor is None
                if meta.get("source") not in self.excluded and not skipped:
                    sample = Sample(record.arrays["clip"], record.arrays.get("aux"))
                    self._block.append((number, sample, meta.get("source"), meta.get("tag")))
            else:
                self.flush()
                self._apply_change(number, record)
        except SessionDamagedError:
            raise
        except Exception as error:  # whatever it is: this session is damaged, the others continue
            raise self._cannot_replay(number, error) from error
        if not self._block:
            self.number = number

    def flush(self) -> None:
        """Step through the queued samples."""
        if not self._block:
            return
        numbers, samples, sources, tags = (list(column) for column in zip(*self._block, strict=True))
        self._block.clear()
        try:
            self.adaptation.method.check_block(self.adaptation.state, samples)
            predictions = apply_samples(self.adaptation, self._kind, numbers, samples, sources)
            if self.monitor is not None:
                names = self.adaptation.state.task.class_names
                for one in zip(numbers, samples, predictions, sources, tags, strict=True):
                    self.monitor.answer(*one, names)
        except Exception as error:
            raise self._cannot_replay(numbers[0], error) from error
        self.number = numbers[-1]

    def _cannot_replay(self, number: int, error: Exception) -> SessionDamagedError:
        return SessionDamagedError(
            f"event {number} cannot be replayed: {error} Everything up to event {self.number} can be recovered.",
            self.number,
        )

    def _apply_change(self, number: int, record: Record) -> None:
        kind = record.kind
        if kind in (events.PAUSED, events.RESUMED):
            self.paused = kind == events.PAUSED
        elif kind == events.CLASSES_CHANGED:
            self.adaptation = with_classes(self.adaptation, record)
        elif kind == events.RESET:
            self.adaptation = reset_state(self.adaptation)
        elif kind in events.REBUILD_EVENTS:
            self.adaptation = self.history.rebuilt(number, record, self.excluded)
            self.needs_snapshot = True
        elif kind != events.LABELLED:
            raise SessionError(f"there is no event of the kind {kind!r}; a later version may know it.")
        if self.monitor is not None:
            self.monitor.observe(number, record)


class History:
    """Earlier adaptation states of a session, rebuilt from its snapshots and its journal."""

    def __init__(self, folder: Path, stream_id: str, tower: TowerLoader | None = None) -> None:
        self.folder, self.stream_id, self.tower = folder, stream_id, tower

    def adaptation_at(self, number: int, excluded: frozenset[str] = frozenset()) -> AdaptationState:
        """Return the adaptation state after an event, as if some sources had never come.

        Raises:
            SessionError: the snapshots and the journal do not reach back that far.
        """
        rebuild = self._last_rebuild(number)
        base = self._snapshot(number, rebuild.number if rebuild else 0, excluded)
        if base is not None:
            replayer = EventReplayer(self, base.number, base.adaptation, excluded=excluded)
        elif rebuild is not None:
            adaptation = self.rebuilt(rebuild.number, rebuild.record, excluded)
            replayer = EventReplayer(self, rebuild.number, adaptation, excluded=excluded)
        else:
            raise SessionError(
                "the snapshots and the journal do not reach back that far; "
                "reset the session to forget everything, or leave it as it is."
            )
        for entry in self._entries(replayer.number, number):
            replayer.apply(entry.number, entry.record)
        replayer.flush()
        return replayer.adaptation

    def rebuilt(self, number: int, record: Record, excluded: frozenset[str]) -> AdaptationState:
        """Return the adaptation state after a roll back or a forgotten source."""
        if record.kind == events.SOURCE_FORGOTTEN:
            return self.adaptation_at(number - 1, excluded | {record.meta["source"]})
        return self.adaptation_at(record.meta["to"], excluded)

    def _entries(self, after: int, number: int) -> Iterator[JournalEntry]:
        if number <= after:
            return
        reader = JournalReader(self.folder, self.stream_id, after, None)
        for entry in reader:
            yield entry
            if entry.number >= number:
                return
        if reader.damage:
            raise damage_error(reader.damage)
        raise SessionDamagedError(f"the journal ends before event {number}.")

    def _last_rebuild(self, number: int) -> JournalEntry | None:
        """Return the last event up to a number whose state does not continue the one before it."""
        listed = segments(self.folder)
        if not listed:
            return None
        found = None
        for entry in self._entries(min(listed[0][0] - 1, number), number):
            if entry.record.kind in events.REBUILD_EVENTS:
                found = entry
        return found

    def _snapshot(self, number: int, not_before: int, excluded: frozenset[str]) -> SessionSnapshot | None:
        for candidate in snapshot_numbers(self.folder):
            if not_before <= candidate <= number:
                try:
                    snapshot = read(snapshot_path(self.folder, candidate), self.stream_id, self.tower)
                except SnapshotError:
                    continue
                if not excluded & snapshot.adaptation.sources.keys():
                    return snapshot
        return None
