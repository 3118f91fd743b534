"""Streams of a data folder: limits, restarts, damage, a full disk, encoders that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    CLASSES,
    Running,
    check_problem,
    digest,
    features,
    learn,
    photograph,
    samples,
    served,
    wanted,
)
from tests.support.session_damage import as_session_format

pytestmark = pytest.mark.pathless


def test_a_name_that_exists_and_a_server_that_is_full(limited_service: TestClient) -> None:
    assert "already" in check_problem(limited_service.post("/v1/streams", json=wanted("s")), 409)["detail"]
    assert limited_service.post("/v1/streams", json=wanted("third")).status_code == 201
    full = limited_service.post("/v1/streams", json=wanted("fourth"))
    check_problem(full, 429)
    assert int(full.headers["retry-after"]) > 0
    assert limited_service.delete("/v1/streams/third").json()["done"] == "deleted"


def test_streams_come_back_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted("a"))
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES})
        learn(service, "/v1/streams/a", 20)
        service.post("/v1/streams/b/predict", files=[("images", photograph(n)) for n in range(4)])
        before = {name: digest(service, f"/v1/streams/{name}") for name in "ab"}
    with served(tmp_path / "data") as service:
        listed = service.get("/v1/streams").json()
        assert [one["name"] for one in listed["streams"]] == ["a", "b"]
        assert listed["damaged"] == []
        assert {name: digest(service, f"/v1/streams/{name}") for name in "ab"} == before
        again = service.post("/v1/streams/b/predict", files=[("images", photograph(9))])
        assert again.json()["predictions"][0]["step"] == 5


def test_a_damaged_stream_is_listed_and_the_others_continue(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        for name in ("good", "bad"):
            identity = service.post("/v1/streams", json=wanted(name)).json()["id"]
            for number in range(6):
                learn(service, f"/v1/streams/{name}", 1, number)
    journal = max((tmp_path / "data" / identity).glob("*.log"))
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 255
    journal.write_bytes(content)
    with served(tmp_path / "data") as service:
        listed = service.get("/v1/streams").json()
        assert [one["name"] for one in listed["streams"]] == ["good"]
        assert [(one["id"], one["name"]) for one in listed["damaged"]] == [(identity, "bad")]
        assert service.get("/v1/streams/bad").json()["error"] == "damaged"
        assert str(tmp_path) not in str(listed)
        refused = service.get(f"/v1/streams/{identity}")
        assert refused.status_code == 409
        assert refused.json()["error"] == "damaged"
        assert learn(service, "/v1/streams/good", 1)[0]["step"] == 7
        recovered = service.post(f"/v1/streams/{identity}/recover")
        assert recovered.status_code == 200, recovered.text
        assert recovered.json()["number"] == listed["damaged"][0]["recoverable"] < 6
        assert learn(service, "/v1/streams/bad", 1, seed=9)[0]["learned"]


def test_streams_of_another_format_are_named_at_the_start_and_say_why_they_are_closed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with served(folder) as service:
        ids = {name: service.post("/v1/streams", json=wanted(name)).json()["id"] for name in ("good", "old", "cut")}
        export = as_session_format(service.get("/v1/streams/good/export").content, 1)
    for name, change in (("old", lambda content: as_session_format(content, 1)), ("cut", lambda content: content[:40])):
        for path in (folder / ids[name]).glob("snapshot-*"):
            path.write_bytes(change(path.read_bytes()))
    with Running(folder) as server:
        client = server.client()
        assert [one["name"] for one in client.streams()] == ["good"]
        lines = sorted(line for line in server.stop().splitlines() if line.startswith("warning: "))
    snapshot = "'snapshot-000000000000.safetensors'"
    assert lines[0].startswith(f"warning: A stream in {folder / ids['cut']} cannot be opened: ")
    assert lines[1] == (
        f"warning: The stream 'old' in {folder / ids['old']} cannot be opened: {snapshot} has session format 1; "
        "this version reads format 2."
    )
    assert len(lines) == 2
    with served(folder) as service:
        for path in ("old", ids["old"]):
            problem = check_problem(service.get(f"/v1/streams/{path}"), 409)
            assert problem["error"] == "damaged"
            assert f"{snapshot} has session format 1; this version reads format 2." in problem["detail"]
            assert problem["hint"].startswith("The file was written by another version")
        assert check_problem(service.get(f"/v1/streams/{ids['cut']}"), 409)["error"] == "damaged"
        assert (
            "there is a stream named 'old'"
            in check_problem(service.post("/v1/streams", json=wanted("old")), 409)["detail"]
        )
        head = {"Content-Type": "application/octet-stream"}
        refused = check_problem(service.post("/v1/import?name=x", content=export, headers=head), 409)
        assert refused["detail"] == "'stream' has session format 1; this version reads format 2."
        assert refused["hint"].startswith("The file was written by another version")


def test_a_full_disk_is_reported_and_the_stream_continues(
    service: TestClient, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(service, stream, 5)
    before = digest(service, stream)

    def full(handle: int, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("cosmic_tta.core.files.write_all", full)
        for path, body in (
            ("predict", {"features": features(samples(2))}),
            ("labels", {"labels": [{"step": 1, "label": "cat"}]}),
            ("classes", {"rename": {"cat": "lion"}}),
            ("pause", None),
            ("reset", None),
        ):
            answer = service.post(f"{stream}/{path}", json=body)
            assert answer.status_code == 507, (path, answer.text)
            assert answer.json()["detail"] == "the server's disk refused: No space left on device."
        looked = service.post(f"{stream}/predict?learn=false", json={"features": features(samples(2))})
        assert looked.status_code == 200
    assert digest(service, stream) == before
    assert learn(service, stream, 1)[0]["step"] == 6
