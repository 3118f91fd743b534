"""What the dashboard keeps while a server runs: live events, and the thumbnails of each stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cosmic_tta.service.dashboard.events import EventHub
from cosmic_tta.service.dashboard.thumbnails import Thumbnails, fingerprint
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.image_ingest import IngestedImages
from cosmic_tta.service.observer import Observer
from cosmic_tta.service.stream_queue import PredictionBatch, StreamQueue
from cosmic_tta.sessions.backend import SessionBackend


class DashboardState(Observer):
    """Observes a host: publishes its events, and saves thumbnails in the background."""

    def __init__(self) -> None:
        self.events = EventHub()
        self._thumbnails: dict[str, Thumbnails] = {}  # by session id
        self._saving: dict[asyncio.Task[None], str] = {}  # tasks, with the session id

    def on_predictions(self, queue: StreamQueue, batch: PredictionBatch, inputs: IngestedImages) -> None:
        """Publish predictions, and start to save their thumbnails."""
        self.events.publish_predictions(queue.session.name, batch)
        if inputs.pixels:
            task = asyncio.get_running_loop().create_task(self._save(queue, batch, inputs))
            self._saving[task] = queue.id
            task.add_done_callback(lambda done: self._saving.pop(done, None))

    def on_change(self, queue: StreamQueue, change: str, number: int | None = None) -> None:
        """Publish a change."""
        self.events.publish_change(queue.session.name, change, number)

    def on_delete(self, queue: StreamQueue) -> None:
        """Publish the deletion of a stream, and drop its thumbnails."""
        self.events.publish_delete(queue.session.name)
        self._thumbnails.pop(queue.id, None)

    async def thumbnails(self, queue: StreamQueue) -> Thumbnails:
        """Return a stream's thumbnails, including those of every image that was answered before this call."""
        await self.wait_for_thumbnails(queue.id)
        return await self._open_thumbnails(queue)

    async def wait_for_thumbnails(self, id: str | None = None) -> None:
        """Wait until the thumbnails of one stream, or of all, are saved."""
        tasks = [task for task, owner in self._saving.items() if id in (None, owner)]
        if tasks:
            await asyncio.wait(tasks)

    async def _open_thumbnails(self, queue: StreamQueue) -> Thumbnails:
        if queue.id not in self._thumbnails:
            found = await asyncio.to_thread(Thumbnails, queue.session.folder)
            if queue.deleted:
                return found
            self._thumbnails.setdefault(queue.id, found)
        return self._thumbnails[queue.id]

    async def _save(self, queue: StreamQueue, batch: PredictionBatch, inputs: IngestedImages) -> None:
        thumbnails = await self._open_thumbnails(queue)
        for result, sample, pixels in zip(batch.results, inputs.samples, inputs.pixels, strict=True):
            await asyncio.to_thread(thumbnails.save, result.number, sample, pixels)
        self.events.publish_change(queue.session.name, "images")
        if thumbnails.full:
            with suppress(Problem):  # the stream was deleted or is busy
                await asyncio.to_thread(thumbnails.prune, await queue.call(_used_fingerprints))


def _used_fingerprints(session: SessionBackend) -> frozenset[str]:
    """Return the fingerprints of all features that the session's memories hold."""
    return frozenset(fingerprint(row) for memory in session.method.memories(session.state) for row in memory.features)
