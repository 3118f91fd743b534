"""What the dashboard keeps of the streams that it observes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.types import Task
from cosmic_tta.methods import make_method
from cosmic_tta.service.dashboard.state import DashboardState
from cosmic_tta.service.image_ingest import IngestedImages
from cosmic_tta.service.stream_queue import StreamQueue
from cosmic_tta.sessions.session import Session
from tests.support.serving import CLASSES, TEXT, samples

pytestmark = pytest.mark.pathless


def test_predictions_changes_and_deletions_are_published_and_thumbnails_saved(tmp_path: Path) -> None:
    async def use() -> None:
        state = DashboardState()
        session = Session.create(tmp_path / "s", "s", Task(tuple(CLASSES), TEXT), make_method("cosmic"))
        with session, ThreadPoolExecutor(1) as threads:
            queue = StreamQueue("id", session, threads, max_pending=10, max_seconds=20.0)
            subscriber = state.events.subscribe("s")
            given = samples(2)
            batch = await queue.step(given)
            state.on_predictions(queue, batch, IngestedImages(given, [np.zeros((32, 32, 3), np.uint8)] * 2))
            assert state.events.last["s"].result is batch.results[-1]
            thumbnails = await state.thumbnails(queue)
            assert thumbnails.steps() == {1, 2}
            state.on_change(queue, "paused", 3)
            assert [b"event: step" in message for message in subscriber.messages] == [True, False, False]
            assert subscriber.messages[-1] == b'event: change\ndata: {"what": "paused", "number": 3}\n\n'
            await queue.close(deleted=True)
            state.on_delete(queue)
            assert "s" not in state.events.last
            assert subscriber.ended
            assert await state.thumbnails(queue) is not thumbnails

    asyncio.run(use())


def test_features_without_pixels_have_no_thumbnails(tmp_path: Path) -> None:
    async def use() -> None:
        state = DashboardState()
        session = Session.create(tmp_path / "s", "s", Task(tuple(CLASSES), TEXT), make_method("cosmic"))
        with session, ThreadPoolExecutor(1) as threads:
            queue = StreamQueue("id", session, threads, max_pending=10, max_seconds=20.0)
            given = samples(2)
            state.on_predictions(queue, await queue.step(given), IngestedImages(given, []))
            assert len(await state.thumbnails(queue)) == 0
            await queue.close()

    asyncio.run(use())
