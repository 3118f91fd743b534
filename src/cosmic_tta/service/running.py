"""uvicorn around the application: slow heads are cut off, an end is waited for."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cosmic_tta.errors import InputError
from cosmic_tta.service.app import make_app
from cosmic_tta.service.refusals import Refused, told
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store

KEEP_ALIVE = 30  # seconds that an idle connection stays open
DRAIN = 30  # seconds that requests under way are waited for at the end


class PatientProtocol(H11Protocol):
    """HTTP whose heads must arrive within some seconds; bodies are timed at the gate."""

    head_seconds = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first head."""
        super().connection_made(transport)
        self._clock: asyncio.TimerHandle | None = None
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Start the clock with a head's first byte, stop it with the last."""
        if self._clock is None:
            self._watch()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._unwatch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the form of every other error."""
        hint = "Send HTTP/1.1; GET /openapi.json describes every route."
        refused = told(Refused(400, "the request cannot be read as HTTP.", hint))
        refused.headers["Connection"] = "close"
        head = h11.Response(status_code=400, headers=refused.raw_headers)
        for event in (head, h11.Data(data=bytes(refused.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._clock = self.loop.call_later(self.head_seconds, self._cut)

    def _unwatch(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _cut(self) -> None:
        self._clock = None
        # A keep-alive connection without a new head has a clock of its own, uvicorn's.
        if self.cycle is None or (self.cycle.response_complete and self.timeout_keep_alive_task is None):
            self.transport.abort()


class _Server(uvicorn.Server):
    """uvicorn, which first lets those go who watch: they would stay for ever, and it would wait for them."""

    def __init__(self, config: uvicorn.Config, farewell: Callable[[], None]) -> None:
        super().__init__(config)
        self._farewell = farewell

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say farewell, then end in good order."""
        self._farewell()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Bind the address, or say why it cannot be had; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}:{port}: {reason}; choose another --port.") from error
    return bound


def run(store: Store, settings: Settings, bound: socket.socket, *, log: bool = False) -> None:
    """Serve until the process is told to end; what is under way is finished first."""
    protocol: Any = type("Protocol", (PatientProtocol,), {"head_seconds": settings.head_seconds})
    app = make_app(store, settings)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_level="info" if log else "warning",
        access_log=log,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=DRAIN,
        backlog=1024,
    )
    if threading.current_thread() is threading.main_thread():
        # uvicorn ends in good order and then raises the signal again; to end as asked is no failure.
        for asked in (signal.SIGINT, signal.SIGTERM):
            signal.signal(asked, lambda *_: None)
    _Server(config, app.state.watch.events.close).run(sockets=[bound])
