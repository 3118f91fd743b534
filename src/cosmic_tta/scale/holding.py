"""The actor of a stream on Ray: it alone has the session open, and does no step twice.

A step whose answer was lost on the way is asked for again by its place in the stream: if it is on disk it is answered
from there.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import ray

from cosmic_tta.core import Method, Prediction, Sample, Task
from cosmic_tta.errors import CosmicError, LockedError, SessionError
from cosmic_tta.explanation import Explanation
from cosmic_tta.guards import Reason
from cosmic_tta.history import apply
from cosmic_tta.moments import Towering
from cosmic_tta.monitor import Monitor
from cosmic_tta.opening import Settings
from cosmic_tta.replay import Reader
from cosmic_tta.session import Answered, Glance, Session

PAUSE = 0.2  # seconds between two tries
KEPT = 256  # predictions of which an actor can still say why


class Card(NamedTuple):
    """What a session is, and how far; sent when it is opened and when its classes change."""

    name: str
    stream: str
    settings: Settings
    method: Method[Any]
    task: Task
    about: dict[str, Any]


class Far(NamedTuple):
    """What of a session changes all the time; comes with every answer."""

    number: int
    seen: int
    paused: bool
    closed: bool
    warnings: list[str]
    glance: Glance


class Reply(NamedTuple):
    """A result, or the error in its place, and how far the session is."""

    result: Any
    far: Far


class Holder:
    """The actor: it owns one session. Errors of ours are sent as values, whole."""

    def __init__(self, folder: str, patience: float, tower: Towering | None) -> None:
        self._folder, self._patience, self._tower = Path(folder), patience, tower
        self._session: Session | None = None
        self._told: deque[tuple[str, Prediction]] = deque(maxlen=KEPT)
        self._tickets = 0

    def card(self) -> Card | CosmicError:
        """Open the session if it is not, and say what it is."""
        try:
            session = self._open()
        except CosmicError as error:
            return error
        return Card(session.name, session.stream, session.settings, session.method, session.task, session.about)

    def whereabouts(self) -> Reply:
        """Say which node and process the session is open in."""
        return self._reply(lambda _: (ray.get_runtime_context().get_node_id(), os.getpid()))

    def step(self, after: int, samples: Sequence[Sample], given: Mapping[str, Any], again: bool) -> Reply:
        """Let samples enter after an event of this number; with `again`, find them entered if they are."""

        def call(session: Session) -> list[tuple[int, bool, Reason, str, Prediction]]:
            if again and session.number == after + len(samples):
                answered = answered_before(session, after, samples)
            else:
                _expect(session, after)
                answered = session.step(samples, **given)
            return [(one.number, one.learned, one.reason, *self._keep(one.prediction)) for one in answered]

        return self._reply(call)

    def peek(self, samples: Sequence[Sample]) -> Reply:
        """Answer samples and change nothing."""
        return self._reply(lambda session: [self._keep(one) for one in session.peek(samples)])

    def change(self, after: int, name: str, given: Sequence[Any], how: Mapping[str, Any], again: bool) -> Reply:
        """Do what adds events; with `again`, nothing if they are there already."""

        def call(session: Session) -> Any:
            if again and session.number > after:
                return None
            _expect(session, after)
            return getattr(session, name)(*given, **how)

        return self._reply(call)

    def ask(self, name: str, *given: Any) -> Reply:
        """Do what adds no event, or get a part of the session."""

        def call(session: Session) -> Any:
            found = getattr(session, name)
            return found(*given) if callable(found) and not isinstance(found, Monitor) else found

        return self._reply(call)

    def exported(self) -> Reply:
        """Return the session as the bytes of one file."""

        def call(session: Session) -> bytes:
            with TemporaryDirectory(prefix="cosmic-export-") as folder:
                file = Path(folder) / "stream"
                session.export(file)
                return file.read_bytes()

        return self._reply(call)

    def why(self, ticket: str) -> Explanation:
        """Say why an answer came out, if it is one of the last."""
        return next((one.why for key, one in self._told if key == ticket), Explanation())

    def _keep(self, prediction: Prediction) -> tuple[str, Prediction]:
        self._tickets += 1
        ticket = f"{os.getpid()}-{self._tickets}"
        self._told.append((ticket, prediction))
        return ticket, Prediction(prediction.scores, prediction.parts)

    def _open(self) -> Session:
        if self._session is None or self._session.closed:
            if self._session is not None:
                self._session.abandon()
            self._session = opened(self._folder, self._patience, self._tower)
        return self._session

    def _reply(self, call: Callable[[Session], Any]) -> Reply:
        try:
            session = self._open()
        except CosmicError as error:
            return Reply(error, Far(-1, 0, False, True, [], Glance(False, None, None, ())))
        try:
            result = call(session)
        except CosmicError as error:
            result = error
        far = Far(session.number, session.seen, session.paused, session.closed, session.warnings, session.glance)
        return Reply(result, far)


def opened(folder: Path, patience: float, tower: Towering | None = None) -> Session:
    """Open a session; one that another process still holds is waited for, never taken from it."""
    until = time.monotonic() + patience
    while True:
        try:
            return Session.open(folder, tower=tower)
        except LockedError:
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE)


def answered_before(session: Session, after: int, samples: Sequence[Sample]) -> list[Answered]:
    """Answer steps that are in the journal already, as they were answered then: from what was known before them."""
    found = list(Reader(session.folder, session.stream, after, None))[: len(samples)]
    records = [one.record for one in found]
    same = len(records) == len(samples) and all(
        record.kind in ("step", "look")
        and np.array_equal(record.arrays["clip"], sample.clip)
        and (sample.aux is None or np.array_equal(record.arrays["aux"], sample.aux))
        for record, sample in zip(records, samples, strict=True)
    )
    if not same:
        raise SessionError(f"the stream has other events after {after} than those asked for: who else writes to it?")
    standing = session.standing(after)
    numbers, sources = [one.number for one in found], [record.meta.get("source") for record in records]
    judged = apply(standing, records[0].kind, numbers, samples, sources)
    return [
        Answered(number, session.monitor.given(one.prediction), not one.reason, one.reason)
        for number, one in zip(numbers, judged, strict=True)
    ]


def _expect(session: Session, after: int) -> None:
    if session.number != after:
        raise SessionError(f"the stream is at event {session.number}, not {after}: who else writes to it?")
