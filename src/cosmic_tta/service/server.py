"""uvicorn around the application, with a timeout for request headers and an orderly end."""

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

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.app import make_app
from cosmic_tta.service.errors import Problem, problem_response
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.sessions.store import Store

KEEP_ALIVE_SECONDS = 30  # that an idle connection stays open
DRAIN_SECONDS = 30  # that running requests may take at the end
BACKLOG = 1024


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a timeout for headers. The middleware has one for bodies."""

    header_seconds = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Start the timer with the first byte of the headers, and stop it with the last."""
        if self._timer is None:
            self._start_timer()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP with a problem response."""
        hint = "Send HTTP/1.1; GET /openapi.json describes every route."
        response = problem_response(Problem(400, "the request cannot be parsed as HTTP.", hint))
        response.headers["Connection"] = "close"
        head = h11.Response(status_code=400, headers=response.raw_headers)
        for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._timer = self.loop.call_later(self.header_seconds, self._abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _abort(self) -> None:
        self._timer = None
        # uvicorn has its own timer for an idle connection that waits for its next request.
        if self.cycle is None or (self.cycle.response_complete and self.timeout_keep_alive_task is None):
            self.transport.abort()


class _Server(uvicorn.Server):
    """uvicorn that ends the event streams first; it would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, end_event_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_event_streams = end_event_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then finish the running requests."""
        self._end_event_streams()
        await super().shutdown(sockets)


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Args:
        host: an IPv4 or IPv6 address, or a host name.
        port: the port; 0 for any that is free.

    Raises:
        InputError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}:{port}: {reason}; choose another --port.") from error
    return listener


def run_server(store: Store, settings: ServiceSettings, listener: socket.socket, *, log: bool = False) -> None:
    """Serve until the process receives SIGINT or SIGTERM; running requests are finished first.

    Args:
        store: the sessions of the data folder.
        settings: limits, encoders and token.
        listener: a socket from `bind_socket`.
        log: whether to log each request.
    """
    protocol: Any = type("ConfiguredProtocol", (HeaderTimeoutProtocol,), {"header_seconds": settings.header_seconds})
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
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        backlog=BACKLOG,
    )
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again after its end; the process then ends with status 0.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
    _Server(config, app.state.dashboard.events.close).run(sockets=[listener])
