"""Exceptions of every kind become responses of one form."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from cosmic_tta.core.errors import InputError, SessionError
from tests.support.serving import check_problem

pytestmark = pytest.mark.pathless


def test_an_unexpected_error_is_answered_without_internals(
    service: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = service.app

    def fail() -> None:
        raise RuntimeError("the secret of /srv/streams")

    monkeypatch.setattr(app.state.host, "queues", fail)
    body = check_problem(service.get("/v1/streams"), 500)
    assert body["error"] == "internal_error"
    assert "RuntimeError" in body["detail"]
    assert "secret" not in str(body)


@pytest.mark.parametrize(
    ("error", "status"),
    [(InputError("'/srv/data/x' is not valid."), 422), (SessionError("'/srv/data/x' is closed."), 409)],
)
def test_an_error_of_the_engine_is_answered_without_paths(
    service: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    app: Any = service.app

    def fail() -> None:
        raise error

    monkeypatch.setattr(app.state.host, "queues", fail)
    assert check_problem(service.get("/v1/streams"), status)["detail"].startswith("'x' is ")
