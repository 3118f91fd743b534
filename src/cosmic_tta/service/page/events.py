"""Live events of a stream for whoever watches; who reads too slowly is dropped, and the stream does not notice."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cosmic_tta.service.lanes import Answers
from cosmic_tta.service.refusals import busy
from cosmic_tta.session import Answered

QUEUE = 128  # messages that may wait for one reader
READERS = 256  # of all streams
BEAT = 10.0  # seconds of silence after which a sign of life is sent
PATIENCE = 10.0  # seconds that a reader may take for one message
NEWEST = 8  # answers of a step that are told
SAYS_NOTHING = b": here\n\n"


class Last(NamedTuple):
    """The last answer of a stream since the server started."""

    answered: Answered
    class_names: tuple[str, ...]


class Reader:
    """One who watches a stream: a bounded queue, and a bell."""

    def __init__(self) -> None:
        self.messages: deque[bytes] = deque()
        self.bell = asyncio.Event()
        self.over = False

    def tell(self, message: bytes) -> None:
        """Lay a message down; one too many, and the reader is dropped."""
        if len(self.messages) >= QUEUE:
            self.end()
        elif not self.over:
            self.messages.append(message)
            self.bell.set()

    def end(self) -> None:
        """Send nothing more; whoever is still there may come again."""
        self.over = True
        self.messages.clear()
        self.bell.set()


class Events:
    """All readers, by stream. It listens to the host in the event loop and never waits."""

    def __init__(self) -> None:
        self.last: dict[str, Last] = {}
        self._readers: dict[str, set[Reader]] = {}
        self.closed = False

    def heard(self, stream: str, what: str, result: Any) -> None:
        """Take note of a change, and pass it on."""
        told: dict[str, Any] = {"what": what}
        if isinstance(result, Answers) and result.answered:
            self.last[stream] = Last(result.answered[-1], result.class_names)
            told |= {"number": result.answered[-1].number, "count": len(result.answered)}
        elif what == "deleted":
            self.last.pop(stream, None)
        readers = self._readers.get(stream)
        if not readers:
            return
        if isinstance(result, Answers):
            told["answers"] = [_brief(one, result.class_names) for one in result.answered[-NEWEST:]]
        elif isinstance(result, int):
            told["number"] = result
        message = f"event: {'step' if what == 'step' else 'change'}\ndata: {json.dumps(told)}\n\n".encode()
        for reader in list(readers):
            reader.tell(message)
            if reader.over or what == "deleted":
                self.leave(stream, reader)
        if what == "deleted":
            for reader in readers:
                reader.end()

    def join(self, stream: str) -> Reader:
        """Begin to watch a stream."""
        if sum(len(readers) for readers in self._readers.values()) >= READERS:
            raise busy("as many pages as may are watching this server.", 30)
        reader = Reader()
        self._readers.setdefault(stream, set()).add(reader)
        if self.closed:
            reader.end()
        return reader

    def leave(self, stream: str, reader: Reader) -> None:
        """Watch no longer."""
        readers = self._readers.get(stream, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(stream, None)

    @property
    def readers(self) -> int:
        """How many are watching."""
        return sum(len(readers) for readers in self._readers.values())

    def close(self) -> None:
        """Let all go: the server is about to end, and would wait for them."""
        self.closed = True
        for readers in self._readers.values():
            for reader in readers:
                reader.end()


def _brief(one: Answered, names: tuple[str, ...]) -> dict[str, Any]:
    best = one.prediction.label
    return {
        "step": one.number,
        "label": names[best],
        "score": round(float(one.prediction.scores[best]), 4),
        "learned": one.learned,
        "reason": getattr(one, "reason", ""),
    }


class EventStream(Response):
    """Server-sent events to one reader, until it leaves, is dropped, or the server ends."""

    media_type = "text/event-stream"

    def __init__(self, events: Events, stream: str, number: int) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._stream, self._number = events, stream, number

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes."""
        reader = self._events.join(self._stream)
        gone = asyncio.ensure_future(_gone(receive, reader))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _said(send, f'event: hello\ndata: {{"number": {self._number}}}\n\n'.encode())
            while not reader.over:
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.bell.wait(), BEAT)
                reader.bell.clear()
                waiting = b"".join(reader.messages) or SAYS_NOTHING
                reader.messages.clear()
                if not reader.over:
                    await _said(send, waiting)
            await _said(send, b"", more=False)
        except TimeoutError:
            pass  # it does not read; the connection is closed by the server
        finally:
            self._events.leave(self._stream, reader)
            gone.cancel()


async def _said(send: Send, body: bytes, more: bool = True) -> None:
    async with asyncio.timeout(PATIENCE):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _gone(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
