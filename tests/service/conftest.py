"""Services in this process, one per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from cosmic_tta.service.settings import ServiceSettings
from tests.support.serving import CLASSES, Running, features, samples, served, wanted


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service with default settings."""
    with served(tmp_path_factory.mktemp("data") / "streams") as client:
        yield client


@pytest.fixture
def stream(service: TestClient) -> Iterator[str]:
    """The path of a new stream of features."""
    created = service.post("/v1/streams", json=wanted("fresh"))
    assert created.status_code == 201, created.text
    yield "/v1/streams/fresh"
    service.delete("/v1/streams/fresh")


@pytest.fixture(scope="module")
def limited_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service with low limits, a stream of features `s` that has learned, and a stream of images `p`."""
    settings = ServiceSettings(
        max_body_bytes=1 << 20, max_import_bytes=1 << 20, max_image_bytes=200_000, max_images=4, max_streams=3
    )
    with served(tmp_path_factory.mktemp("data") / "streams", settings) as client:
        assert client.post("/v1/streams", json=wanted("s")).status_code == 201
        assert client.post("/v1/streams", json={"name": "p", "classes": CLASSES, "aux": None}).status_code == 201
        learned = client.post("/v1/streams/s/predict", json={"features": features(samples(4))})
        assert learned.status_code == 200
        yield client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server process."""
    with Running(tmp_path_factory.mktemp("data") / "streams") as running:
        running.client()
        yield running
