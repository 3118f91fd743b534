"""Routes for the operator."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    learn,
)

pytestmark = pytest.mark.pathless


def test_live_ready_and_metrics(service: TestClient, stream: str) -> None:
    assert service.get("/live").json() == {"status": "live"}
    assert service.get("/ready").json() == {"status": "ready"}
    learn(service, stream, 3)
    figures = service.get("/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    assert 'cosmic_steps_total{learned="true",stream="fresh"} 3.0' in figures.text
    assert 'route="/v1/streams/{stream}/predict"' in figures.text
    service.delete(stream)
    assert "fresh" not in service.get("/metrics").text
