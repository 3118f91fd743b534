"""Live events of streams as server-sent events. A subscriber that reads too slowly is dropped."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cosmic_tta.service.errors import too_many_requests
from cosmic_tta.service.stream_queue import PredictionBatch
from cosmic_tta.sessions.session_info import StepResult

MAX_QUEUED = 128  # messages per subscriber
MAX_SUBSCRIBERS = 256  # of all streams
KEEP_ALIVE_SECONDS = 10.0  # without a message, after which a comment is sent
SEND_SECONDS = 10.0  # that a subscriber may take to receive one message
MAX_RESULTS = 8  # newest predictions of a request that an event lists
KEEP_ALIVE = b": keep-alive\n\n"


class LastPrediction(NamedTuple):
    """The last prediction of a stream since the server started, and the class names it refers to."""

    result: StepResult
    class_names: tuple[str, ...]


class EventSubscriber:
    """One connection that receives the events of a stream, through a bounded queue."""

    def __init__(self) -> None:
        self.messages: deque[bytes] = deque()
        self.changed = asyncio.Event()
        self.ended = False

    def put(self, message: bytes) -> None:
        """Queue a message; end the subscription if the queue is full."""
        if len(self.messages) >= MAX_QUEUED:
            self.end()
        elif not self.ended:
            self.messages.append(message)
            self.changed.set()

    def end(self, *, discard: bool = True) -> None:
        """End the subscription. The browser may subscribe again.

        Args:
            discard: whether queued messages are discarded instead of sent.
        """
        self.ended = True
        if discard:
            self.messages.clear()
        self.changed.set()


class EventHub:
    """The subscribers of all streams, and the last prediction of each. It runs in the event loop and never waits."""

    def __init__(self) -> None:
        self.last: dict[str, LastPrediction] = {}  # by stream
        self._subscribers: dict[str, set[EventSubscriber]] = {}  # by stream
        self._closed = False

    @property
    def count(self) -> int:
        """Number of subscribers."""
        return sum(len(subscribers) for subscribers in self._subscribers.values())

    def publish_predictions(self, stream: str, batch: PredictionBatch) -> None:
        """Remember the last prediction, and send the newest ones."""
        event: dict[str, Any] = {"what": "step"}
        if batch.results:
            self.last[stream] = LastPrediction(batch.results[-1], batch.class_names)
            event |= {"number": batch.results[-1].number, "count": len(batch.results)}
        if stream in self._subscribers:
            event["answers"] = [_summary(result, batch.class_names) for result in batch.results[-MAX_RESULTS:]]
            self._send(stream, "step", event)

    def publish_change(self, stream: str, change: str, number: int | None = None) -> None:
        """Send a change of a stream; `number` is its last event."""
        self._send(stream, "change", {"what": change} | ({} if number is None else {"number": number}))

    def publish_delete(self, stream: str) -> None:
        """Send the deletion of a stream, and end its subscriptions."""
        self.last.pop(stream, None)
        self.publish_change(stream, "deleted")
        for subscriber in self._subscribers.pop(stream, set()):
            subscriber.end(discard=False)

    def subscribe(self, stream: str) -> EventSubscriber:
        """Add a subscriber to a stream.

        Raises:
            Problem: the server has too many subscribers (429).
        """
        if self.count >= MAX_SUBSCRIBERS:
            raise too_many_requests(f"this server has its limit of {MAX_SUBSCRIBERS} open dashboards.", 30)
        subscriber = EventSubscriber()
        self._subscribers.setdefault(stream, set()).add(subscriber)
        if self._closed:
            subscriber.end()
        return subscriber

    def unsubscribe(self, stream: str, subscriber: EventSubscriber) -> None:
        """Remove a subscriber."""
        subscribers = self._subscribers.get(stream, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(stream, None)

    def close(self) -> None:
        """End all subscriptions; the server would wait for them at its end."""
        self._closed = True
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.end()

    def _send(self, stream: str, kind: str, event: dict[str, Any]) -> None:
        message = f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()
        for subscriber in list(self._subscribers.get(stream, ())):
            subscriber.put(message)
            if subscriber.ended:
                self.unsubscribe(stream, subscriber)


def _summary(result: StepResult, class_names: tuple[str, ...]) -> dict[str, Any]:
    best = result.prediction.label
    return {
        "step": result.number,
        "label": class_names[best],
        "score": round(float(result.prediction.scores[best]), 4),
        "learned": result.learned,
        "reason": result.reason,
    }


class EventStream(Response):
    """Server-sent events for one subscriber, until it leaves, is dropped, or the server ends."""

    media_type = "text/event-stream"

    def __init__(self, events: EventHub, stream: str, number: int) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._stream, self._number = events, stream, number

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the number of the last event, then every message."""
        subscriber = self._events.subscribe(self._stream)
        disconnect = asyncio.ensure_future(_end_on_disconnect(receive, subscriber))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_body(send, f'event: hello\ndata: {{"number": {self._number}}}\n\n'.encode())
            while not subscriber.ended or subscriber.messages:
                with suppress(TimeoutError):
                    await asyncio.wait_for(subscriber.changed.wait(), KEEP_ALIVE_SECONDS)
                subscriber.changed.clear()
                messages = b"".join(subscriber.messages)
                subscriber.messages.clear()
                if messages or not subscriber.ended:
                    await _send_body(send, messages or KEEP_ALIVE)
            await _send_body(send, b"", more=False)
        except TimeoutError:
            pass  # the subscriber does not read; the server closes the connection
        finally:
            self._events.unsubscribe(self._stream, subscriber)
            disconnect.cancel()


async def _send_body(send: Send, body: bytes, more: bool = True) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _end_on_disconnect(receive: Receive, subscriber: EventSubscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscriber.end()
