"""Streams on Ray: one actor a stream, placed by its name, its session on storage that every machine sees.

When the actor's worker or its machine dies, whoever asks next has the stream opened on another one, from its snapshot
and its journal, to the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cosmic_tta.alarms import Alarm, Signals
from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.errors import CosmicError, SessionError, StorageError
from cosmic_tta.explanation import Explanation
from cosmic_tta.moments import Towering
from cosmic_tta.monitor import Monitor
from cosmic_tta.scale.cluster import ONE_THREAD
from cosmic_tta.scale.holding import PAUSE, Card, Holder, Reply
from cosmic_tta.session import Answered, Session

PATIENCE = 120.0  # seconds in which a stream that lost its worker must be answering again


def place(name: str, nodes: Iterable[str]) -> str:
    """Return the node of a stream: each stream ranks the nodes by itself, so that losing one moves only its own.

    >>> names = [f"stream {i}" for i in range(1000)]
    >>> before = {name: place(name, ["a", "b", "c"]) for name in names}
    >>> after = {name: place(name, ["a", "b"]) for name in names}
    >>> all(after[name] == node for name, node in before.items() if node != "c")
    True
    """
    return max(nodes, key=lambda node: blake2b(f"{name}\0{node}".encode(), digest_size=8).digest())


class DistantSession:
    """A session in an actor, with the calls of `Session`. It has one owner: calls come one after the other."""

    at_once = 16  # that a store opens at a time

    def __init__(self, folder: Path, *, tower: Towering | None = None, patience: float = PATIENCE) -> None:
        self.folder, self._tower, self._patience = folder, tower, patience
        self._actor: Any = None
        self._ended = False
        self._seat()
        self._read_card()
        self._asked("ask", "number")

    @classmethod
    def create(
        cls,
        folder: Path | str,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        tower: Towering | None = None,
        **how: Any,
    ) -> Self:
        """Make a session in a folder that does not exist yet."""
        Session.create(folder, name, task, method, tower=tower, **how).close()
        return cls(Path(folder), tower=tower)

    @classmethod
    def open(cls, folder: Path | str, *, tower: Towering | None = None, recover: bool = False) -> Self:
        """Open a session in an actor."""
        if recover:
            Session.open(folder, tower=tower, recover=True).close()
        return cls(Path(folder), tower=tower)

    @classmethod
    def import_(
        cls, file: Path | str, folder: Path | str, name: str | None = None, *, tower: Towering | None = None
    ) -> Self:
        """Make a new session from an exported file."""
        Session.import_(file, folder, name, tower=tower).close()
        return cls(Path(folder), tower=tower)

    # What can be asked of it without a word to the actor.

    name = property(lambda self: self._card.name)
    stream = property(lambda self: self._card.stream)
    settings = property(lambda self: self._card.settings)
    method = property(lambda self: self._card.method)
    task = property(lambda self: self._card.task)
    about = property(lambda self: self._card.about)
    number = property(lambda self: self._far.number)
    seen = property(lambda self: self._far.seen)
    paused = property(lambda self: self._far.paused)
    warnings = property(lambda self: self._far.warnings)
    glance = property(lambda self: self._far.glance)
    closed = property(lambda self: self._ended)

    # What the actor is asked.

    @property
    def whereabouts(self) -> tuple[str, int]:
        """The node and the process that hold it."""
        found: tuple[str, int] = self._asked("whereabouts")
        return found

    @property
    def monitor(self) -> Monitor:
        """What was answered, and what late labels say of it."""
        found: Monitor = self._asked("ask", "monitor")
        return found

    def alarms(self) -> list[Alarm]:
        """Return the alarms that are on."""
        found: list[Alarm] = self._asked("ask", "alarms")
        return found

    def signals(self) -> Signals:
        """Return what the alarms look at."""
        found: Signals = self._asked("ask", "signals")
        return found

    @property
    def not_learned(self) -> dict[str, int]:
        """How many samples did not teach, by reason."""
        found: dict[str, int] = self._asked("ask", "not_learned")
        return found

    @property
    def sources(self) -> dict[str, list[int]]:
        """Who had a part in what was learned."""
        found: dict[str, list[int]] = self._asked("ask", "sources")
        return found

    @property
    def state(self) -> State:
        """What was learned."""
        found: State = self._asked("ask", "state")
        return found

    def digest(self) -> str:
        """Return a fingerprint of state, task and monitor."""
        return str(self._asked("ask", "digest"))

    def step(self, samples: Iterable[Sample], **given: Any) -> list[Answered]:
        """Let samples enter and answer them. On disk before it returns; done once, whatever dies meanwhile."""
        samples = list(samples)
        if not samples:
            return []
        answers = self._asked("step", self.number, samples, given, once=True)
        return [
            Answered(number, self._prediction(*told), learned, reason) for number, learned, reason, *told in answers
        ]

    def peek(self, samples: Iterable[Sample]) -> list[Prediction]:
        """Answer samples and change nothing."""
        return [self._prediction(*told) for told in self._asked("peek", list(samples))]

    def labels(self, told: Iterable[tuple[int, str]]) -> None:
        """Say what the pictures of some answers really were."""
        self._change("labels", list(told))

    def pause(self) -> None:
        """Stop learning."""
        self._change("pause")

    def resume(self) -> None:
        """Go on learning."""
        self._change("resume")

    def reset(self) -> None:
        """Forget what was learned."""
        self._change("reset")

    def roll_back(self, snapshot: str) -> None:
        """Go back to what a snapshot knew."""
        self._change("roll_back", snapshot)
        self._read_card()

    def without(self, source: str) -> None:
        """Undo a source."""
        self._change("without", source)

    def change_classes(
        self, task: Task, renamed: Mapping[str, str] | None = None, *, about: Mapping[str, Any] | None = None
    ) -> None:
        """Go on with other classes."""
        self._change("change_classes", task, renamed, about=about)
        self._read_card()

    def snapshot(self, note: str = "") -> Any:
        """Write a snapshot of now."""
        return self._asked("ask", "snapshot", note)

    def snapshots(self) -> Any:
        """List the snapshots, the newest first."""
        return self._asked("ask", "snapshots")

    def drop_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot."""
        self._asked("ask", "drop_snapshot", snapshot)

    def export(self, file: Path | str) -> None:
        """Write the session as it stands to one file."""
        Path(file).write_bytes(self._asked("exported"))

    def tick(self) -> None:
        """With the policy `everysec`: have the actor sync if the last time is a second ago."""
        if self.settings.policy != "always" and not self._ended:
            self._actor.ask.remote("tick")

    def close(self) -> None:
        """Have the actor sync and close, and end it."""
        if not self._ended:
            self._asked("ask", "close")
            self.abandon()

    def abandon(self) -> None:
        """End the actor as if it were killed."""
        self._ended = True
        ray.kill(self._actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change(self, name: str, *given: Any, **how: Any) -> None:
        self._asked("change", self.number, name, given, how, once=True)

    def _prediction(self, ticket: str, told: Prediction) -> Prediction:
        return Prediction(told.scores, told.parts, partial(self._why, ticket))

    def _why(self, ticket: str) -> Explanation:
        try:
            found: Explanation = ray.get(self._actor.why.remote(ticket))
        except ray.exceptions.RayError:
            return Explanation()
        return found

    def _seat(self) -> None:
        """Start an actor, on the node that the stream's name chooses among those that live."""
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        where = NodeAffinitySchedulingStrategy(place(self.folder.name, alive), soft=True) if alive else "DEFAULT"
        kind = ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy=where, runtime_env=ONE_THREAD)(Holder)
        self._actor = kind.remote(str(self.folder.absolute()), self._patience, self._tower)

    def _read_card(self) -> None:
        card = self._tried(lambda again: self._actor.card.remote())
        if isinstance(card, CosmicError):
            self.abandon()
            raise card
        self._card: Card = card

    def _asked(self, call: str, *given: Any, once: bool = False) -> Any:
        """Ask the actor; if it is gone, the next one. What must happen once says that it may have been asked before."""
        if self._ended:
            raise SessionError(f"the session {self._card.name!r} was closed; open it again.")
        reply: Reply = self._tried(lambda again: getattr(self._actor, call).remote(*given, *([again] if once else [])))
        if reply.far.number >= 0:
            self._far = reply.far
        if isinstance(reply.result, CosmicError):
            raise reply.result
        return reply.result

    def _tried(self, ask: Callable[[bool], Any]) -> Any:
        until, again = time.monotonic() + self._patience, False
        while True:
            try:
                return ray.get(ask(again))
            except (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnavailableError) as error:
                if time.monotonic() > until:
                    raise StorageError(
                        f"the stream at {str(self.folder)!r} lost its worker and got none for {self._patience:g} "
                        "seconds; does the cluster have a node left that sees this folder?"
                    ) from error
                gone = isinstance(error, ray.exceptions.ActorDiedError)
            again = True
            time.sleep(PAUSE)
            if gone:
                self._seat()
