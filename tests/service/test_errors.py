"""Unknown paths, methods and types are answered in the form of every other error."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    check_problem,
)

pytestmark = pytest.mark.pathless

TRICKS = [
    "..%2f..%2fetc%2fpasswd", "..", "%2e%2e", "%2e%2e%2f%2e%2e", ".%00", "s%00", "s%2f..", "..\\..\\windows",
    "%c0%ae%c0%ae", "....//", "s;p", "s%0d%0aX: y", "~root", "C:", "%ff", "s%20", "%2fetc%2fpasswd", "lock",
    "s?x=../", "\u202e", "S",
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_a_path_names_streams_alone(limited_service: TestClient, trick: str) -> None:
    for address in (f"/v1/streams/{trick}/export", f"/v1/streams/{trick}/snapshots"):
        answer = limited_service.get(address)
        if "?" in trick:
            assert answer.status_code == 422  # what follows is no path, and no word that is known
        else:
            assert answer.status_code in (404, 405, 422), (address, answer.text)
    head = {"Content-Type": "application/octet-stream"}
    assert limited_service.post("/v1/import", params={"name": trick}, content=b"x", headers=head).status_code in (
        400,
        422,
    )


def test_unknown_paths_methods_and_types(limited_service: TestClient) -> None:
    check_problem(limited_service.get("/v1/streams/none"), 404)
    check_problem(limited_service.get("/nothing"), 404)
    assert check_problem(limited_service.put("/v1/streams"), 405)
    assert limited_service.put("/v1/streams").headers["allow"] == "GET, POST"
    assert limited_service.patch("/v1/streams/s").headers["allow"] == "DELETE, GET"
    check_problem(limited_service.post("/v1/streams", content=b"{}"), 422)
    check_problem(limited_service.post("/v1/import?name=x", content=b"{}"), 415)
    head = {"Content-Type": "application/octet-stream"}
    check_problem(limited_service.post("/v1/import?name=x", content=b"no stream", headers=head), 422)
    check_problem(limited_service.post("/v1/import?name=x", content=b"", headers=head), 422)
    check_problem(limited_service.post("/v1/streams/s/recover"), 409)
