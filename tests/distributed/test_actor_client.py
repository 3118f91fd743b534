"""Calls of an actor that dies, without a cluster: they are repeated, marked as such, and end after a while."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.core.errors import StorageError

pytestmark = pytest.mark.scale
pytest.importorskip("ray", reason="ray is not installed")


class FakeActor:
    """Records the arguments of its calls, and raises the errors that it is given before it answers."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors, self.calls = errors, list[tuple[Any, ...]]()

    def __getattr__(self, name: str) -> Any:
        actor = self

        class Member:
            def remote(self, *arguments: Any) -> str:
                actor.calls.append((name, *arguments))
                if actor.errors:
                    raise actor.errors.pop(0)
                return "reply"

        return Member()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client whose actors are fake. `starts` counts them."""
    from cosmic_tta.distributed import actor_client

    class FakeClient(actor_client.ActorClient):
        starts, fake = 0, FakeActor([])

        def _start_actor(self) -> None:
            self.starts += 1
            self._actor = self.fake

    monkeypatch.setattr(actor_client, "RETRY_PAUSE", 0.01)
    monkeypatch.setattr("ray.get", lambda reference: reference)
    return FakeClient(Path("folder"), patience=0.1)


def test_a_call_is_repeated_with_another_actor_and_says_so(client: Any) -> None:
    from ray.exceptions import ActorDiedError, ActorUnavailableError

    assert client.call("peek", 1) == "reply"
    assert client.call_once("step", 1) == "reply"
    assert client.fake.calls == [("peek", 1), ("step", 1, False)]
    client.fake.calls.clear()
    client.fake.errors = [ActorDiedError(), ActorUnavailableError("away", None)]
    assert client.call_once("step", 2) == "reply"
    assert client.fake.calls == [("step", 2, False), ("step", 2, True), ("step", 2, True)]
    assert client.starts == 2, "an actor that is only unavailable may still have the session open"


def test_a_session_that_gets_no_worker_is_given_up(client: Any) -> None:
    from ray.exceptions import ActorDiedError

    client.fake.errors = [ActorDiedError() for _ in range(100)]
    with pytest.raises(StorageError, match="'folder' lost its worker and got no other for 0.1 seconds"):
        client.call("peek", 1)
    assert client.starts > 2


def test_names_spread_over_nodes_and_a_new_node_takes_only_its_own() -> None:
    from cosmic_tta.distributed.actor_client import choose_node

    names = [f"stream {number}" for number in range(900)]
    before = {name: choose_node(name, ["a", "b"]) for name in names}
    after = {name: choose_node(name, ["c", "b", "a"]) for name in names}
    assert all(after[name] in (before[name], "c") for name in names)
    assert all(200 < count < 400 for count in Counter(after.values()).values())
