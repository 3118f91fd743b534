"""What every request passes: its host and origin, its token, the size and pace of its body.

The body is read here, with bounds on size and time, before anything else sees it; so no route can be made to take
more. A request without the right token is refused before its body is read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosmic_tta.service.access import bearer, check
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.refusals import Refused, busy, told
from cosmic_tta.service.settings import Settings

OPEN = ("/live", "/ready", "/")  # for whoever watches the machine, and the page that asks for the token
OPEN_FILES = "/page/"  # its own files; they tell nothing
LINGER_BYTES, LINGER_SECONDS = 64 << 20, 2.0  # of a refused body, read so that the refusal can be heard
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
    ),
    "Cache-Control": "no-store",
}


class Gate:
    """ASGI around the application."""

    def __init__(
        self, app: ASGIApp, settings: Settings, metrics: Metrics, stream_hash: Callable[[str], str | None]
    ) -> None:
        self.app, self.settings, self.metrics, self._stream_hash = app, settings, metrics, stream_hash
        self._held = 0  # bytes of all bodies that are here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and hand it on with its whole body, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:  # no other protocol is spoken here
                await send({"type": "websocket.close", "code": 1008})
            return
        begun, status, body = time.perf_counter(), 500, _Body()

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.lower().encode(), v.encode()) for k, v in HEADERS.items() if k.lower().encode() not in there),
                ]
            await send(message)

        try:
            headers = Headers(scope=scope)
            try:
                self._check(scope, headers)
                await self._read(body, scope, headers, receive)
            except Refused as refused:
                await _refuse(refused, body, scope, receive, guarded)
                return
            await self.app(scope, _replayed(body, receive), guarded)
        finally:
            self._held -= body.size
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self.metrics.request(scope["method"], path, status, time.perf_counter() - begun)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Refuse strangers: a foreign page in somebody's browser, a missing or wrong token."""
        host = headers.get("host", "")
        if not self.settings.token and _host_name(host) not in self.settings.hosts:
            raise Refused(
                403, "this server is for its own machine: the request's Host names another.", "Use http://127.0.0.1."
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "requests from pages of another origin are not taken.", "Use the service's own page.")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "requests from pages of another site are not taken.", "Use the service's own page.")
        path = scope["path"]
        if path in OPEN or path.startswith(OPEN_FILES):
            return
        parts = path.split("/")
        named = parts[3] if parts[:3] == ["", "v1", "streams"] and len(parts) > 3 else ""
        check(bearer(headers), self.settings.token, (self._stream_hash(named) or "") if named else "")

    async def _read(self, body: _Body, scope: Scope, headers: Headers, receive: Receive) -> None:
        """Read the body, at most so much, in at most so long."""
        most = self.settings.import_bytes if scope["path"] == "/v1/import" else self.settings.body_bytes
        told_length = headers.get("content-length", "0")
        if len(told_length) > 18 or not told_length.isdecimal() or int(told_length) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                while not body.ended:
                    chunk = body.heard(await receive())
                    if body.size + len(chunk) > most:
                        raise _too_large(most)
                    if self._held + len(chunk) > self.settings.bodies_bytes:
                        raise busy("too much is being sent to this server at once.", 2)
                    body.size += len(chunk)
                    self._held += len(chunk)
                    body.parts.append(chunk)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self.settings.body_seconds:g} seconds.") from None


@dataclass
class _Body:
    """What came of a body so far."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: bool = False

    def heard(self, message: Message) -> bytes:
        self.ended = not message.get("more_body", False)
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection ended before the body did.")
        chunk: bytes = message.get("body", b"")
        return chunk


def _too_large(most: int) -> Refused:
    return Refused(413, f"the body is larger than {most / (1 << 20):g} MB, the most that is taken here.")


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _replayed(body: _Body, receive: Receive) -> Receive:
    """Give the body once; then what the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        whole = b"".join(body.parts)
        body.parts.clear()
        return {"type": "http.request", "body": whole, "more_body": False}

    return replay


async def _refuse(refused: Refused, body: _Body, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and go on reading for a moment: a client that still sends would not hear it otherwise."""
    response = told(refused)
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    said = b"" if scope["method"] == "HEAD" else bytes(response.body)
    await send({"type": "http.response.body", "body": said, "more_body": True})
    dropped = 0
    with suppress(TimeoutError, Refused):
        async with asyncio.timeout(LINGER_SECONDS):
            while not body.ended and dropped < LINGER_BYTES and refused.status != 408:
                dropped += len(body.heard(await receive()))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
