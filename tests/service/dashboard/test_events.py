"""Live events and slow subscribers."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.service.dashboard.events import MAX_QUEUED, EventHub, EventStream
from tests.support.serving import (
    Running,
    features,
    samples,
    wanted,
)

pytestmark = pytest.mark.pathless


def test_a_subscriber_that_does_not_read_is_dropped() -> None:
    async def use() -> None:
        events = EventHub()
        slow, quick = events.subscribe("s"), events.subscribe("s")
        for number in range(MAX_QUEUED + 5):
            events.publish_change("s", "paused", number)
            quick.messages.clear()
        assert slow.ended
        assert not slow.messages
        assert not quick.ended
        assert events.count == 1
        events.publish_delete("s")
        assert events.count == 0
        assert quick.ended
        assert b"deleted" in quick.messages[-1]

    asyncio.run(use())


def test_a_connection_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.service.dashboard.events.SEND_SECONDS", 0.1)

    async def use() -> None:
        events = EventHub()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) > 1:
                await asyncio.sleep(60)

        async def receive() -> Any:
            await asyncio.sleep(60)

        start = time.monotonic()
        await EventStream(events, "s", 3)({"type": "http"}, receive, send)
        assert time.monotonic() - start < 2
        assert events.count == 0

    asyncio.run(use())


def listener(server: Running, stream: str) -> socket.socket:
    """A reader with a small buffer, which reads only when told to."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", server.port))
    one.sendall(f"GET /v1/streams/{stream}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    one.settimeout(10)
    return one


def test_events_are_live_and_slow_subscribers_delay_nothing(tmp_path: Path) -> None:
    given = features(samples(4))
    with Running(tmp_path / "data", "--policy", "everysec") as server:
        stream = server.client().create(**wanted())

        def steps(count: int) -> float:
            start = time.monotonic()
            for _ in range(count):
                stream.predict_features(given, top=1)
            return time.monotonic() - start

        plain = steps(40)
        idle = [listener(server, "s") for _ in range(20)]
        live = listener(server, "s")
        heard = live.recv(4096)
        while b"event: hello" not in heard:
            heard += live.recv(4096)
        watched = steps(40)
        stream.pause()
        while b"paused" not in heard:
            heard += live.recv(65536)
        reply = [json.loads(one) for one in re.findall(rb"event: step\r?\ndata: (.*)", heard)]
        assert sum(one["count"] for one in reply) == 160
        assert reply[-1]["answers"][-1]["step"] == stream.describe()["number"] - 1
        print(f"40 requests: {plain:.2f} s unwatched, {watched:.2f} s with 20 readers that do not read")
        assert watched < 2 * plain + 1
        start = time.monotonic()
        server.stop(10)
        assert time.monotonic() - start < 5
        for one in [*idle, live]:
            one.close()
