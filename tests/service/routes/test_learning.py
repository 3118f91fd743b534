"""Routes that pause, reset, change classes and forget sources."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    learn,
    photograph,
    rows,
    wanted,
)

pytestmark = pytest.mark.pathless


def test_a_paused_stream_predicts_and_learns_nothing(service: TestClient, stream: str) -> None:
    learn(service, stream, 5)
    assert service.post(f"{stream}/pause").json()["done"] == "paused"
    reply = learn(service, stream, 5, seed=4)
    assert not any(one["learned"] for one in reply)
    info = service.get(stream).json()
    assert info["paused"]
    assert info["seen"] == 5
    service.post(f"{stream}/resume")
    assert learn(service, stream, 1)[0]["reason"] == "duplicate"
    assert learn(service, stream, 1, seed=9)[0]["learned"]


def test_reset_forgets_all_that_was_learned(service: TestClient, stream: str) -> None:
    fresh = learn(service, stream, 3, seed=50, learn="false")
    learn(service, stream, 20)
    assert learn(service, stream, 3, seed=50, learn="false") != fresh
    service.post(f"{stream}/reset")
    assert service.get(stream).json()["seen"] == 0
    assert learn(service, stream, 3, seed=50, learn="false") == fresh


def test_a_forgotten_source_leaves_no_trace(service: TestClient, stream: str) -> None:
    service.post("/v1/streams", json=wanted("clean"))
    for number in range(4):
        learn(service, stream, 3, seed=number, source="roof")
        learn(service, "/v1/streams/clean", 3, seed=number, source="roof")
        learn(service, stream, 2, seed=100 + number, source="vandal")
    assert service.post(f"{stream}/forget-source", json={"source": "vandal"}).status_code == 200
    same = learn(service, "/v1/streams/clean", 5, 77, learn="false")
    assert learn(service, stream, 5, 77, learn="false") == same
    assert service.post(f"{stream}/forget-source", json={"source": "nobody"}).status_code == 422
    service.delete("/v1/streams/clean")


def test_classes_are_added_removed_and_renamed_in_one_request(service: TestClient, stream: str) -> None:
    learn(service, stream, 12)
    row = rows(1, seed=5)[0].tolist()
    change = {"add": ["owl"], "remove": ["cat"], "rename": {"ship": "boat"}, "text": {"owl": row}}
    reply = service.post(f"{stream}/classes", json=change)
    assert reply.status_code == 200, reply.text
    assert reply.json()["classes"] == ["airplane", "boat", "truck", "owl"]
    assert reply.json()["seen"] == 12
    assert {one["label"] for one in learn(service, stream, 1)[0]["answers"]} == {"airplane", "boat", "truck", "owl"}


def test_a_stream_with_an_encoder_encodes_new_classes(service: TestClient) -> None:
    asked = {"name": "named", "classes": ["cat", "ship"], "templates": ["a blurry photo of a {}."]}
    assert service.post("/v1/streams", json=asked).status_code == 201
    reply = service.post("/v1/streams/named/classes", json={"add": ["truck"], "rename": {"ship": "boat"}})
    assert reply.status_code == 200, reply.text
    assert reply.json()["classes"] == ["cat", "boat", "truck"]
    looked = service.post("/v1/streams/named/predict", files=[("images", photograph(0))])
    assert looked.status_code == 200
    kept = service.post("/v1/streams/named/classes", json={"rename": {"boat": "vessel"}, "keep_text": True})
    assert kept.status_code == 200
    service.delete("/v1/streams/named")
