"""Read access to an open session."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cosmic_tta.core.method import Method
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.sessions import retention
from cosmic_tta.sessions.alarms import Alarm, Signals
from cosmic_tta.sessions.journal.writer import JournalWriter
from cosmic_tta.sessions.monitor import Monitor
from cosmic_tta.sessions.replay import History
from cosmic_tta.sessions.session_file import AdaptationState, SnapshotInfo
from cosmic_tta.sessions.session_info import HealthSummary
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.snapshot_writer import SnapshotWriter
from cosmic_tta.sessions.state_file import describe


class SessionView:
    """The parts of an open session, and everything that reads them and changes nothing."""

    folder: Path
    stream_id: str
    name: str
    settings: SessionSettings
    paused: bool
    monitor: Monitor
    _adaptation: AdaptationState
    _journal: JournalWriter
    _history: History
    _snapshots: SnapshotWriter

    @property
    def method(self) -> Method[Any]:
        """The method and its parameters."""
        return self._adaptation.method

    @property
    def state(self) -> State:
        """The state of the method."""
        return self._adaptation.state

    @property
    def task(self) -> Task:
        """The classes and their texts."""
        return self._adaptation.state.task

    @property
    def metadata(self) -> dict[str, Any]:
        """Plain values of the session's creator."""
        return self._adaptation.metadata

    @property
    def sources(self) -> dict[str, list[int]]:
        """The sources that were learned from: name → [number of the first step, steps]."""
        return self._adaptation.sources

    @property
    def number(self) -> int:
        """The number of the last event."""
        return self._journal.number

    @property
    def seen(self) -> int:
        """The number of samples that were learned from."""
        return self.state.seen

    @property
    def closed(self) -> bool:
        """Whether the session was closed, by its owner or by an error; then it must be opened again."""
        return self._journal.closed

    @property
    def warnings(self) -> list[str]:
        """What went wrong without harm, the latest last."""
        return self._snapshots.warnings

    @property
    def health(self) -> HealthSummary:
        """Fallback, accuracies and active alarms."""
        monitor, alarms = self.monitor, tuple(alarm.kind for alarm in self.alarms())
        return HealthSummary(bool(monitor.fallback_since), monitor.accuracy, monitor.zero_shot_accuracy, alarms)

    @property
    def not_learned(self) -> dict[str, int]:
        """The number of samples that were not learned from, by reason."""
        return {reason: self.monitor.counts[reason] for reason in ("paused", "duplicate", "quota")}

    def alarms(self) -> list[Alarm]:
        """Return the active alarms: drift, collapse, harm."""
        return self.monitor.alarms(self.task.class_names)

    def signals(self) -> Signals:
        """Return the signals that the alarms test."""
        return self.monitor.signals()

    def snapshots(self) -> list[SnapshotInfo]:
        """List the snapshots, the newest first."""
        return retention.list_snapshots(self.folder)

    def digest(self) -> str:
        """Return a fingerprint of state, task and monitor."""
        recent_samples = self._adaptation.recent_samples
        parts = [
            describe(self.method, self.state), None if recent_samples is None else state_digest(recent_samples),
            self.monitor.digest(), self.paused, self.metadata, self.sources,
        ]  # fmt: skip
        return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()

    def adaptation_at(self, number: int) -> AdaptationState:
        """Return the adaptation state after an earlier event, if snapshots and journal reach back that far."""
        return self._history.adaptation_at(number)

    def peek(self, samples: Iterable[Sample]) -> list[Prediction]:
        """Answer samples without learning; nothing is written."""
        samples = list(samples)
        self.method.check_block(self.state, samples)
        return [self.monitor.effective_prediction(self.method.peek(self.state, sample)) for sample in samples]
