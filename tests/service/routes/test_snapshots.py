"""Routes of snapshots."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    features,
    learn,
    samples,
)

pytestmark = pytest.mark.pathless


def test_snapshots_are_created_listed_and_rolled_back_to(service: TestClient, stream: str) -> None:
    learn(service, stream, 8)
    made = service.post(f"{stream}/snapshots", json={"note": "before the rain"})
    assert made.status_code == 201
    known = learn(service, stream, 3, seed=50, learn="false")
    learn(service, stream, 8, seed=1)
    assert learn(service, stream, 3, seed=50, learn="false") != known
    listed = service.get(f"{stream}/snapshots").json()["snapshots"]
    assert [one["note"] for one in listed if one["id"] == made.json()["id"]] == ["before the rain"]
    back = service.post(f"{stream}/roll-back", json={"snapshot": made.json()["id"]})
    assert back.status_code == 200, back.text
    assert learn(service, stream, 3, seed=50, learn="false") == known
    gone = service.post(f"{stream}/roll-back", json={"snapshot": "000000009999"})
    assert gone.status_code == 422
    assert learn(service, stream, 3, seed=50, learn="false") == known


def test_snapshots_are_deleted_and_sources_listed(service: TestClient, stream: str) -> None:
    body = {"features": features(samples(3))}
    assert service.post(f"{stream}/predict", json=body, params={"source": "roof"}).status_code == 200
    noted = service.post(f"{stream}/snapshots", json={"note": "keep me"}).json()["id"]
    learn(service, stream, 2, seed=7)
    service.post(f"{stream}/snapshots", json={})
    assert service.delete(f"{stream}/snapshots/{noted}").json()["done"] == "snapshot deleted"
    assert noted not in {one["id"] for one in service.get(f"{stream}/snapshots").json()["snapshots"]}
    assert service.delete(f"{stream}/snapshots/{noted}").status_code in (404, 409, 422)
    assert service.get(f"{stream}/sources").json()["sources"] == [{"name": "roof", "first": 1, "samples": 3}]
