"""Routes that create, list, describe, export and import streams."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    check_problem,
    digest,
    learn,
)

pytestmark = pytest.mark.pathless


def test_an_export_is_imported_under_another_name(service: TestClient, stream: str) -> None:
    learn(service, stream, 12)
    file = service.get(f"{stream}/export")
    assert file.headers["content-type"] == "application/octet-stream"
    head = {"Content-Type": "application/octet-stream"}
    made = service.post("/v1/import?name=twin", content=file.content, headers=head)
    assert made.status_code == 201, made.text
    assert digest(service, "/v1/streams/twin") == digest(service, stream)
    assert learn(service, "/v1/streams/twin", 4, seed=3) == learn(service, stream, 4, seed=3)
    again = service.post("/v1/import?name=twin", content=file.content, headers=head)
    assert again.status_code == 409
    service.delete("/v1/streams/twin")


def test_a_corrupted_export_is_refused(limited_service: TestClient) -> None:
    file = bytearray(limited_service.get("/v1/streams/s/export").content)
    head = {"Content-Type": "application/octet-stream"}
    for place in range(0, len(file), max(1, len(file) // 40)):
        corrupted = bytearray(file)
        corrupted[place] ^= 0x55
        check_problem(limited_service.post("/v1/import?name=x", content=bytes(corrupted), headers=head), 422)
        check_problem(limited_service.post("/v1/import?name=x", content=bytes(file[:place]), headers=head), 422)
