"""Bodies that the schemas refuse, and how the fields are named in errors."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    check_problem,
)

pytestmark = pytest.mark.pathless


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "labels", {"labels": []}),
        ("POST", "labels", {"labels": [{"step": -1, "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": "1", "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": 999, "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": 1, "label": "dragon"}]}),
        ("POST", "roll-back", {"snapshot": "../../../etc/passwd"}),
        ("POST", "roll-back", {"snapshot": "000000000077"}),
        ("POST", "roll-back", {"snapshot": "٣"}),
        ("POST", "roll-back", {}),
        ("POST", "snapshots", {"note": "n" * 300}),
        ("POST", "forget-source", {"source": "nobody"}),
    ],
)
def test_other_bodies_that_are_not_valid_are_refused(
    limited_service: TestClient, method: str, path: str, body: Any
) -> None:
    check_problem(limited_service.request(method, f"/v1/streams/s/{path}", json=body), 422)


def test_an_error_names_the_field(limited_service: TestClient) -> None:
    reply = limited_service.post("/v1/streams/s/predict", json={"features": [{"clip": [1.0, "x"]}]})
    assert reply.status_code == 422
    assert "features.0.clip.1" in reply.json()["detail"]
    assert "[" not in reply.json()["detail"]
