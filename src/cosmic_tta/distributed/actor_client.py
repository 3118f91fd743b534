"""ActorClient: calls the actor of a session. If the actor's worker or machine dies, it starts another actor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cosmic_tta.core.errors import StorageError
from cosmic_tta.distributed.cluster import ONE_THREAD
from cosmic_tta.distributed.session_actor import RETRY_PAUSE, ActorReply, SessionActor
from cosmic_tta.sessions.session_file import TowerLoader

PATIENCE = 120.0  # seconds in which a session that lost its worker must answer again


def choose_node(name: str, nodes: Iterable[str]) -> str:
    """Return the node for a session. Each name ranks the nodes by itself: a lost node moves only its own sessions.

    >>> names = [f"stream {i}" for i in range(1000)]
    >>> before = {name: choose_node(name, ["a", "b", "c"]) for name in names}
    >>> after = {name: choose_node(name, ["a", "b"]) for name in names}
    >>> all(after[name] == node for name, node in before.items() if node != "c")
    True
    """
    return max(nodes, key=lambda node: blake2b(f"{name}\0{node}".encode(), digest_size=8).digest())


class ActorClient:
    """Starts the actor of a session's folder and calls its members. One thread at a time may use it."""

    def __init__(self, folder: Path, tower: TowerLoader | None = None, patience: float = PATIENCE) -> None:
        self._folder, self._tower, self._patience = folder, tower, patience
        self._start_actor()

    def call(self, name: str, *arguments: Any) -> ActorReply:
        """Call a member that may run twice."""
        return self._reply(lambda _: getattr(self._actor, name).remote(*arguments))

    def call_once(self, name: str, *arguments: Any) -> ActorReply:
        """Call a member that takes, as its last argument, whether the call is repeated."""
        return self._reply(lambda repeated: getattr(self._actor, name).remote(*arguments, repeated))

    def notify(self, name: str, *arguments: Any) -> None:
        """Call a member without waiting for its reply."""
        getattr(self._actor, name).remote(*arguments)

    def kill(self) -> None:
        """Kill the actor."""
        ray.kill(self._actor)

    def _reply(self, request: Callable[[bool], Any]) -> ActorReply:
        """Send a request until an actor replies. If the actor is gone, start another one."""
        deadline, repeated = time.monotonic() + self._patience, False
        while True:
            try:
                reply: ActorReply = ray.get(request(repeated))
                return reply
            except (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnavailableError) as error:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"the stream at {str(self._folder)!r} lost its worker and got no other for "
                        f"{self._patience:g} seconds; does the cluster have a node that sees this folder?"
                    ) from error
                is_dead = isinstance(error, ray.exceptions.ActorDiedError)
            repeated = True
            time.sleep(RETRY_PAUSE)
            if is_dead:
                self._start_actor()

    def _start_actor(self) -> None:
        """Start an actor, on the node that the folder's name chooses among those that are alive."""
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        strategy: Any = "DEFAULT"
        if alive:
            strategy = NodeAffinitySchedulingStrategy(choose_node(self._folder.name, alive), soft=True)
        options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": strategy, "runtime_env": ONE_THREAD}
        actor = ray.remote(**options)(SessionActor)
        self._actor: Any = actor.remote(str(self._folder.absolute()), self._patience, self._tower)
