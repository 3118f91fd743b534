"""Checks of every request: body limits, hosts, origins."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.middleware import RequestChecks
from cosmic_tta.service.settings import ServiceSettings
from tests.support.serving import (
    check_problem,
    features,
    samples,
)

pytestmark = pytest.mark.pathless

JSON = {"Content-Type": "application/json"}


def test_a_slow_body_is_refused() -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the application must not see it")

    async def use() -> None:
        checks = RequestChecks(never, ServiceSettings(body_seconds=0.3), Metrics(), lambda name: None)
        sent: list[Any] = []

        async def drip() -> dict[str, Any]:
            await asyncio.sleep(0.05)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": [(b"host", b"localhost")]}
        start = time.monotonic()
        await checks(scope, drip, send)
        assert time.monotonic() - start < 2
        assert sent[0]["status"] == 408
        assert json.loads(sent[1]["body"])["error"] == "timeout"

    asyncio.run(use())


def test_too_many_bytes_at_once_are_refused() -> None:
    async def use() -> None:
        async def held(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(0.3)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        checks = RequestChecks(held, ServiceSettings(max_pending_bytes=1000), Metrics(), lambda name: None)
        statuses: list[int] = []

        async def one() -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"x" * 600, "more_body": False}

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": [(b"host", b"localhost")]}
            await checks(scope, receive, send)

        await asyncio.gather(one(), one())
        await one()  # what was held is free again
        assert statuses == [429, 200, 200]

    asyncio.run(use())


def test_a_large_body_is_refused_with_and_without_a_length(limited_service: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 65536

    check_problem(limited_service.post("/v1/streams/s/predict", content=b"x" * (2 << 20), headers=JSON), 413)
    check_problem(limited_service.post("/v1/streams/s/predict", content=endless(), headers=JSON), 413)
    check_problem(limited_service.post("/v1/import?name=x", content=endless()), 413)


def test_pages_of_other_sites_and_other_hosts_are_refused(limited_service: TestClient) -> None:
    body = {"features": features(samples(1))}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9"},
        {"Host": "["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
    ):
        check_problem(limited_service.post("/v1/streams/s/predict", json=body, headers=headers), 403)
    same = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert limited_service.get("/v1/streams", headers=same).status_code == 200
    assert limited_service.get("/live", headers={"Host": "localhost:80"}).status_code == 200
