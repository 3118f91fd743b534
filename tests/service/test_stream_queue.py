"""Queues of streams: order, shared writes, limits, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from cosmic_tta.core.errors import InputError
from cosmic_tta.core.types import Sample, Task
from cosmic_tta.methods import make_method
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.stream_queue import StreamQueue
from cosmic_tta.sessions.session import Session
from tests.support.serving import (
    CLASSES,
    TEXT,
    digest,
    features,
    learn,
    rows,
    samples,
)

pytestmark = pytest.mark.pathless


async def with_queue(folder: Path, use: Callable[[StreamQueue, list[int]], Awaitable[None]], **bounds: Any) -> None:
    session = Session.create(folder / "s", "s", Task(tuple(CLASSES), TEXT), make_method("bayes_means"))
    with session, ThreadPoolExecutor(2) as threads:
        groups: list[int] = []
        limits = {"max_pending": 100, "max_seconds": 20.0, **bounds}
        queue = StreamQueue("id", session, threads, on_commit=groups.append, **limits)
        await use(queue, groups)
        await queue.close()


def test_steps_that_wait_together_are_written_together_in_their_order(tmp_path: Path) -> None:
    given = samples(40)

    async def use(queue: StreamQueue, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(queue.call(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        asked = [asyncio.create_task(queue.step([sample], f"camera {n}")) for n, sample in enumerate(given)]
        await asyncio.sleep(0.05)
        blocked.set()
        answers = await asyncio.gather(*asked)
        assert await first
        assert groups == [40]
        assert [one.results[0].number for one in answers] == list(range(1, 41))
        assert queue.session.sources["camera 7"] == [8, 1]
        method = make_method("bayes_means")
        state = method.init(Task(tuple(CLASSES), TEXT))
        for sample, answer in zip(given, answers, strict=True):
            assert np.array_equal(method.step(state, sample).scores, answer.results[0].prediction.scores)

    asyncio.run(with_queue(tmp_path, use))


def test_a_refused_step_does_not_affect_the_steps_beside_it(tmp_path: Path) -> None:
    good = samples(6)
    wrong = Sample(rows(1, 7), good[0].aux)

    async def use(queue: StreamQueue, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(queue.call(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        given = [good[0], good[1], wrong, good[2]]
        asked = [asyncio.create_task(queue.step([sample])) for sample in given]
        await asyncio.sleep(0.05)
        blocked.set()
        reply = await asyncio.gather(*asked, return_exceptions=True)
        await first
        assert isinstance(reply[2], InputError)
        numbers = [one.results[0].number for one in reply if not isinstance(one, BaseException)]
        assert numbers == [1, 2, 3]
        assert queue.session.seen == 3

    asyncio.run(with_queue(tmp_path, use))


def test_a_full_queue_says_when_to_retry(tmp_path: Path) -> None:
    async def use(queue: StreamQueue, groups: list[int]) -> None:
        with queue.reserve_slot(), queue.reserve_slot():
            with pytest.raises(Problem, match="is full") as refused, queue.reserve_slot():
                pass
            assert refused.value.status == 429
            assert int(refused.value.headers["Retry-After"]) >= 1
            with queue.reserve_slot(extra=1):
                assert queue.pending == 3
        with queue.reserve_slot():
            assert queue.pending == 1

    asyncio.run(with_queue(tmp_path, use, max_pending=2))


def test_a_request_that_waits_too_long_is_not_started(tmp_path: Path) -> None:
    async def use(queue: StreamQueue, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(queue.call(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        with pytest.raises(Problem, match="not started") as refused:
            await queue.step(samples(1))
        assert refused.value.status == 429
        blocked.set()
        assert await first  # what was start is seen through
        assert queue.session.seen == 0

    asyncio.run(with_queue(tmp_path, use, max_seconds=0.2))


def test_a_queue_that_closes_finishes_its_jobs_and_accepts_no_more(tmp_path: Path) -> None:
    async def use(queue: StreamQueue, groups: list[int]) -> None:
        waiting = [asyncio.create_task(queue.step([sample])) for sample in samples(5)]
        await asyncio.sleep(0)
        await queue.close(deleted=True)
        assert [one.results[0].number for one in await asyncio.gather(*waiting)] == [1, 2, 3, 4, 5]
        with pytest.raises(Problem) as refused:
            await queue.step(samples(1))
        assert refused.value.status == 404

    asyncio.run(with_queue(tmp_path, use))


def test_a_stream_with_a_full_queue_can_still_be_paused(
    service: TestClient, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = service.app
    with monkeypatch.context() as full:
        full.setattr(app.state.host.queue("fresh"), "_max_pending", 0)
        answer = service.post(f"{stream}/predict", json={"features": features(samples(1))})
        assert answer.status_code == 429
        assert answer.headers["retry-after"].isdigit()
        assert set(answer.json()) == {"error", "detail", "hint"}
        assert service.post(f"{stream}/pause").status_code == 200
    assert service.get(stream).json()["number"] == 1


def test_a_session_that_an_error_closed_is_opened_again(service: TestClient, stream: str) -> None:
    learn(service, stream, 5)
    before = digest(service, stream)
    app: Any = service.app
    app.state.host.queue("fresh").session.abandon()
    assert digest(service, stream) == before
    assert learn(service, stream, 1)[0]["step"] == 6
