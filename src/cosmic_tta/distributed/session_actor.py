"""SessionActor: the Ray actor that has a session open. No step is done twice.

A client whose answer was lost asks for the step again, with the number of the event before it. If the step is in the
journal, it is answered from there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import ray

from cosmic_tta.core.errors import CosmicError, LockedError, SessionError
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.sessions import events
from cosmic_tta.sessions.journal.reader import JournalReader
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import TowerLoader
from cosmic_tta.sessions.session_info import HealthSummary, StepResult
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.transitions import apply_samples

RETRY_PAUSE = 0.2  # seconds between two attempts


class SessionDescription(NamedTuple):
    """What a session is. Sent when it is opened and when its classes change."""

    name: str
    settings: SessionSettings
    method: Method[Any]
    task: Task
    metadata: dict[str, Any]


class SessionProgress(NamedTuple):
    """What changes with every event. Sent with every reply."""

    number: int
    seen: int
    paused: bool
    closed: bool
    warnings: list[str]
    health: HealthSummary


NOT_OPEN = SessionProgress(-1, 0, False, True, [], HealthSummary(False, None, None, ()))


class ActorReply(NamedTuple):
    """A result, or the error that took its place, and the progress of the session."""

    result: Any
    progress: SessionProgress


class SessionActor:
    """The actor. It owns one session. Errors of this package are returned as values, with all their fields."""

    def __init__(self, folder: str, patience: float, tower: TowerLoader | None) -> None:
        self._folder, self._patience, self._tower = Path(folder), patience, tower
        self._session: Session | None = None

    def describe(self) -> ActorReply:
        """Return the session's description; open the session if it is not open."""
        return self._reply(
            lambda session: SessionDescription(
                session.name, session.settings, session.method, session.task, session.metadata
            )
        )

    def location(self) -> ActorReply:
        """Return the node and the process that have the session open."""
        return self._reply(lambda _: (ray.get_runtime_context().get_node_id(), os.getpid()))

    def step(self, after: int, samples: Sequence[Sample], options: Mapping[str, Any], repeated: bool) -> ActorReply:
        """Learn from samples after the event of this number. If `repeated`, they may be in the journal already."""

        def call(session: Session) -> list[StepResult]:
            if repeated and session.number == after + len(samples):
                results = journaled_results(session, after, samples)
            else:
                _require_number(session, after)
                results = session.step(samples, **options)
            return [result._replace(prediction=_portable(result.prediction)) for result in results]

        return self._reply(call)

    def peek(self, samples: Sequence[Sample]) -> ActorReply:
        """Answer samples without learning."""
        return self._reply(lambda session: [_portable(prediction) for prediction in session.peek(samples)])

    def change(
        self, after: int, name: str, arguments: Sequence[Any], options: Mapping[str, Any], repeated: bool
    ) -> ActorReply:
        """Call a member that adds events. If `repeated`, do nothing if the events are in the journal already."""

        def call(session: Session) -> Any:
            if repeated and session.number > after:
                return None
            _require_number(session, after)
            return getattr(session, name)(*arguments, **options)

        return self._reply(call)

    def read(self, name: str) -> ActorReply:
        """Return a property of the session."""
        return self._reply(lambda session: getattr(session, name))

    def call(self, name: str, *arguments: Any) -> ActorReply:
        """Call a member that adds no events."""
        return self._reply(lambda session: getattr(session, name)(*arguments))

    def export(self) -> ActorReply:
        """Return the session as the bytes of one file."""

        def call(session: Session) -> bytes:
            with TemporaryDirectory(prefix="cosmic-export-") as folder:
                file = Path(folder) / "stream"
                session.export(file)
                return file.read_bytes()

        return self._reply(call)

    def _open(self) -> Session:
        if self._session is None or self._session.closed:
            if self._session is not None:
                self._session.abandon()
            self._session = open_when_free(self._folder, self._patience, self._tower)
        return self._session

    def _reply(self, call: Callable[[Session], Any]) -> ActorReply:
        try:
            session = self._open()
        except CosmicError as error:
            return ActorReply(error, NOT_OPEN)
        try:
            result = call(session)
        except CosmicError as error:
            result = error
        progress = SessionProgress(
            session.number, session.seen, session.paused, session.closed, session.warnings, session.health
        )
        return ActorReply(result, progress)


def open_when_free(folder: Path, patience: float, tower: TowerLoader | None = None) -> Session:
    """Open a session. If another process has it open, wait for its release."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return Session.open(folder, tower=tower)
        except LockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE)


def journaled_results(session: Session, after: int, samples: Sequence[Sample]) -> list[StepResult]:
    """Answer steps that are in the journal, as they were answered: from the adaptation state before them."""
    entries = list(JournalReader(session.folder, session.stream_id, after, None))[: len(samples)]
    records = [entry.record for entry in entries]
    is_same = len(records) == len(samples) and all(
        record.kind in (events.STEP, events.PAUSED_STEP)
        and np.array_equal(record.arrays["clip"], sample.clip)
        and (sample.aux is None or np.array_equal(record.arrays["aux"], sample.aux))
        for record, sample in zip(records, samples, strict=True)
    )
    if not is_same:
        raise SessionError(f"the events after {after} are not those asked for; does another process write to it?")
    adaptation = session.adaptation_at(after)
    numbers, sources = [entry.number for entry in entries], [record.meta.get("source") for record in records]
    predictions = apply_samples(adaptation, records[0].kind, numbers, samples, sources)
    return [
        StepResult(number, session.monitor.effective_prediction(one.prediction), not one.reason, one.reason)
        for number, one in zip(numbers, predictions, strict=True)
    ]


def _portable(prediction: Prediction) -> Prediction:
    """Return the prediction with its explanation computed: the function that computes it cannot always be sent."""
    return Prediction(prediction.scores, prediction.parts, partial(_identity, prediction.why))


def _identity(explanation: Explanation) -> Explanation:
    return explanation


def _require_number(session: Session, after: int) -> None:
    if session.number != after:
        raise SessionError(f"the stream is at event {session.number}, not {after}; does another process write to it?")
