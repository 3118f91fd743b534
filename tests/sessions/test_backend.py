from __future__ import annotations

import inspect
from typing import Any

import pytest

from cosmic_tta.sessions.backend import SessionBackend
from cosmic_tta.sessions.session import Session


def members() -> list[str]:
    """The public members of the protocol."""
    kinds = [kind for kind in SessionBackend.__mro__ if kind.__module__ == SessionBackend.__module__]
    names = {name for kind in kinds for name in (*vars(kind), *getattr(kind, "__annotations__", {}))}
    return sorted(name for name in names if not name.startswith("_"))


def missing(kind: Any) -> list[str]:
    return [name for name in members() if not hasattr(kind, name) and name not in vars_of(kind)]


def vars_of(kind: Any) -> set[str]:
    """Attributes that the class annotates or its `__init__` sets."""
    annotated = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
    return annotated | {name for name in members() if f"self.{name}" in inspect.getsource(kind.__init__)}


def test_a_session_of_this_process_has_every_member() -> None:
    assert len(members()) > 30
    assert missing(Session) == []


def test_a_remote_session_has_every_member() -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    from cosmic_tta.distributed.remote_session import RemoteSession

    assert missing(RemoteSession) == []
