"""The streams of one data folder: their sessions, one queue for each, and what may be done with them."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cosmic_tta.core.errors import CosmicError, SessionFormatError
from cosmic_tta.service.auth import hash_token, new_token
from cosmic_tta.service.encoder_batching import EncoderLoader, EncoderPool
from cosmic_tta.service.errors import OTHER_VERSION, Problem, not_ready, too_many_requests, without_paths
from cosmic_tta.service.image_ingest import ImageIngest
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.observer import Observer
from cosmic_tta.service.request_body import PredictRequest
from cosmic_tta.service.schemas import ChangeClasses, CreateStream
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.service.stream_factory import attach_resources, changed_task, check_size, make_stream_method, new_task
from cosmic_tta.service.stream_queue import PredictionBatch, StreamQueue
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.backend import SessionBackend
from cosmic_tta.sessions.store import Store

SESSION_THREADS = 16
CONTROL_SLOTS = 16  # slots beyond a full queue for requests other than predict, so that a busy stream can be paused
T = TypeVar("T")


class StreamHost:
    """All streams of one data folder.

    Args:
        store: the sessions on disk.
        settings: limits and encoders.
        metrics: receives counts and sizes.
        observer: is called after each change of a stream.
        load_encoder: loads an encoder; by default into this process.
    """

    def __init__(
        self,
        store: Store,
        settings: ServiceSettings,
        metrics: Metrics,
        observer: Observer,
        load_encoder: EncoderLoader | None = None,
    ) -> None:
        self.settings, self._store, self._metrics, self._observer = settings, store, metrics, observer
        self._encoders = EncoderPool(settings, load_encoder, metrics.batch_sizes.observe)
        self._ingest = ImageIngest(settings, self._encoders, metrics)
        self._threads = ThreadPoolExecutor(SESSION_THREADS, thread_name_prefix="session")
        self._queues: dict[str, StreamQueue] = {}  # by name
        self._encoder_problems: dict[str, str] = {}  # by name
        self._creating: set[str] = set()  # names
        self.ready = False

    async def open(self) -> None:
        """Open every stream on disk. Streams whose files are damaged are listed by `damaged`."""
        await self._in_thread(self._store.open_all)
        for session_id, error in self._store.damaged().items():
            folder, name = self._store.folder / session_id, self._store.name_of(session_id)
            stream = f"The stream {name!r}" if name else "A stream"
            reason = str(error).replace(f"{folder}/", "")
            # Without a configured handler, this prints the message alone to standard error.
            logging.getLogger("cosmic_tta").warning("warning: %s in %s cannot be opened: %s", stream, folder, reason)
        for session_id, session in self._store.sessions().items():
            self._add_queue(session_id)
            await self._check_encoders(session)
        self.ready = True

    async def close(self) -> None:
        """Finish the requests that wait, then close files and processes."""
        self.ready = False
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))
        await self._ingest.close()
        await self._encoders.close()
        await self._in_thread(self._store.close)
        self._threads.shutdown(wait=True)

    # Lookup.

    def require_ready(self) -> None:
        """Raise a problem (503) while the streams are read from disk."""
        if not self.ready:
            raise not_ready("the server is still reading its streams from disk.", 2)

    def queues(self) -> list[StreamQueue]:
        """Return the queues of all streams, sorted by name."""
        return [queue for _, queue in sorted(self._queues.items())]

    def queue(self, name: str) -> StreamQueue:
        """Return the queue of a stream.

        Raises:
            Problem: there is no such stream (404), its files are damaged (409), or the server is starting (503).
        """
        self.require_ready()
        if name in self._queues:
            return self._queues[name]
        session_id = self._find_damaged(name)
        if session_id is None:
            raise Problem(404, f"there is no stream {name[:80]!r}.")
        error = self._store.damaged()[session_id]
        last_event = getattr(error, "recoverable", None)
        recovery = (
            f"POST /v1/streams/{session_id}/recover keeps it up to event {last_event}. "
            if last_event is not None
            else ""
        )
        restore = "Restore its folder from a copy, or delete the stream. Other streams are not affected."
        hint = OTHER_VERSION if isinstance(error, SessionFormatError) else recovery + restore
        detail = f"the files of this stream cannot be used: {without_paths(str(error))}"
        raise Problem(409, detail, hint, error="damaged")

    def damaged(self) -> list[dict[str, Any]]:
        """Describe the streams whose files are damaged, and what can be recovered."""
        return [
            {
                "id": session_id,
                "name": self._store.name_of(session_id) or None,
                "reason": without_paths(str(error)),
                "recoverable": getattr(error, "recoverable", None),
            }
            for session_id, error in self._store.damaged().items()
        ]

    def encoder_problem(self, name: str) -> str:
        """Return why a stream takes no images here; empty if it does."""
        return self._encoder_problems.get(name, "")

    def token_hash(self, name: str) -> str | None:
        """Return the hash of a stream's own token, if it has one that can be read. Damaged streams keep theirs."""
        queue = self._queues.get(name)
        if queue is not None:
            return queue.session.metadata.get("token_hash")
        session_id = self._find_damaged(name)
        metadata = None if session_id is None else self._store.metadata_of(session_id)
        return None if metadata is None else metadata.get("token_hash")

    # Life of a stream.

    async def create(self, request: CreateStream) -> tuple[StreamQueue, str | None]:
        """Create a stream; return its queue and, if one was asked for, its own token."""
        self._reserve_name(request.name)
        try:
            method = make_stream_method(request)
            metadata, task = await new_task(request, self._encoders, self.settings.max_views)
            task = await self._in_thread(attach_resources, method, task)
            await self._in_thread(check_size, method, request, task)
            token = new_token() if request.own_token else None
            if token is not None:
                metadata["token_hash"] = hash_token(token)
            create = partial(
                self._store.create,
                request.name,
                task,
                method,
                metadata=metadata,
                guard=None if request.guard is None else AdmissionPolicy(**request.guard.model_dump()),
                policy=request.policy or self.settings.sync_policy,
            )
            return self._add_queue(await self._in_thread(create)), token
        finally:
            self._creating.discard(request.name)

    async def import_(self, name: str, data: bytes) -> StreamQueue:
        """Create a stream from an exported file."""
        self._reserve_name(name)
        try:
            with tempfile.TemporaryDirectory(prefix="cosmic-import-") as folder:
                file = Path(folder) / "stream"  # never the client's name
                await self._in_thread(file.write_bytes, data)
                queue = self._add_queue(await self._in_thread(self._store.import_, file, name))
        finally:
            self._creating.discard(name)
        await self._check_encoders(queue.session)
        return queue

    async def export(self, queue: StreamQueue) -> bytes:
        """Return a stream as one file, with the hash of its own token."""

        def write(session: SessionBackend) -> bytes:
            with tempfile.TemporaryDirectory(prefix="cosmic-export-") as folder:
                file = Path(folder) / "stream"
                session.export(file)
                return file.read_bytes()

        return await self.query(queue, write)

    async def recover(self, name: str) -> StreamQueue:
        """Open a damaged stream with the events before the damage, by its id or name."""
        session_id = self._find_damaged(name)
        if session_id is None:
            raise Problem(409, "there is no damaged stream of this id.", "GET /v1/streams lists the damaged ones.")
        self._require_known_token(session_id)
        session = await self._in_thread(self._store.recover, session_id)
        queue = self._add_queue(session_id)
        await self._check_encoders(session)
        return queue

    async def delete(self, name: str) -> None:
        """Delete a stream and its files; a damaged one by its id or name."""
        damaged_id = None if name in self._queues else self._find_damaged(name)
        if damaged_id is not None:
            self._require_known_token(damaged_id)
        queue = self.queue(name) if damaged_id is None else None
        if queue is not None:
            del self._queues[name]  # new requests are answered 404; those that wait are finished
            await queue.close(deleted=True)
        session_id = damaged_id if queue is None else queue.id
        assert session_id is not None
        try:
            await self._in_thread(self._store.delete, session_id)
        except CosmicError:
            if session_id in self._store.sessions():  # the disk refused, so the stream still exists
                self._add_queue(session_id)
            raise
        self._encoder_problems.pop(name, None)
        self._metrics.remove_stream(name)
        if queue is not None:
            self._observer.on_delete(queue)

    # Work on a stream.

    async def predict(
        self, queue: StreamQueue, request: PredictRequest, *, learn: bool, source: str | None
    ) -> PredictionBatch:
        """Predict images or features. With `learn`, all of them are learned from, or none."""
        with queue.reserve_slot():
            name = queue.session.name
            inputs = await self._ingest.ingest(request, queue.session.metadata, self.encoder_problem(name))
            batch = await (queue.step(inputs.samples, source) if learn else queue.peek(inputs.samples))
        for result in batch.results:
            self._metrics.steps.labels(name, str(result.learned).lower()).inc()
        if learn:
            self._observer.on_predictions(queue, batch, inputs)
        return batch

    async def query(self, queue: StreamQueue, function: Callable[[SessionBackend], T]) -> T:
        """Call a function that reads a stream, in its turn."""
        with queue.reserve_slot(extra=CONTROL_SLOTS):
            return await queue.call(function)

    async def change(self, queue: StreamQueue, change: str, function: Callable[[SessionBackend], T]) -> tuple[T, int]:
        """Call a function that changes a stream, in its turn; return its result and the stream's last event."""
        result, number = await self.query(queue, lambda session: (function(session), session.number))
        self._observer.on_change(queue, change, number)
        return result, number

    async def change_classes(self, queue: StreamQueue, request: ChangeClasses) -> None:
        """Change the classes of a stream. Classes that stay keep what was learned."""
        with queue.reserve_slot():
            old, metadata = queue.session.task, queue.session.metadata
            task = await changed_task(old, metadata, request, self._encoders)

            def change(session: SessionBackend) -> None:
                if session.task.class_names != old.class_names:
                    raise Problem(409, "another request has changed the classes of this stream.")
                session.change_classes(task, dict(request.rename))

            await queue.call(change)
        self._observer.on_change(queue, "classes")

    def update_metrics(self) -> None:
        """Set the gauges that are computed when metrics are read."""
        for name, queue in self._queues.items():
            self._metrics.pending.labels(name).set(queue.pending)
        self._metrics.streams.labels("open").set(len(self._queues))
        self._metrics.streams.labels("damaged").set(len(self._store.damaged()))

    def _find_damaged(self, name: str) -> str | None:
        """Return the id of a damaged stream, given its id or name."""
        damaged = self._store.damaged()
        return next(
            (session_id for session_id in damaged if session_id == name or self._store.name_of(session_id) == name),
            None,
        )

    def _require_known_token(self, session_id: str) -> None:
        """Refuse to change a damaged stream if nobody can show that he may: its own token may be unreadable too."""
        if not self.settings.token and self._store.metadata_of(session_id) is None:
            raise Problem(
                403, "the files of this stream cannot be read, so it is unknown whether it has a token of its own.",
                f"Start the server with --token-file and send that token, or remove the folder {session_id} by hand.",
            )  # fmt: skip

    def _reserve_name(self, name: str) -> None:
        self.require_ready()
        if name in self._queues or name in self._creating:
            raise Problem(409, f"a stream {name!r} exists already.", "Choose another name, or delete that stream.")
        if len(self._queues) + len(self._creating) >= self.settings.max_streams:
            raise too_many_requests(
                f"this server has its limit of {self.settings.max_streams} streams; delete one.", 60
            )
        self._creating.add(name)

    def _add_queue(self, session_id: str) -> StreamQueue:
        session = self._store.get(session_id)
        queue = StreamQueue(
            session_id,
            session,
            self._threads,
            max_pending=self.settings.queue_size,
            max_seconds=self.settings.queue_seconds,
            on_commit=self._metrics.commit_sizes.observe,
            reopen=self._store.reopen,
        )
        self._queues[session.name] = queue
        return queue

    async def _check_encoders(self, session: SessionBackend) -> None:
        self._encoder_problems[session.name] = await self._ingest.check_encoders(session.metadata)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
