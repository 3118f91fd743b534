"""Checks of every request: its host, its origin, its token, and the size and speed of its body.

The body is read here, within limits of size and time, before any route sees it. A request without a valid token is
refused before its body is read.
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

from cosmic_tta.service.auth import bearer_token, check_token
from cosmic_tta.service.errors import Problem, problem_response, too_many_requests
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.settings import MEGABYTE, ServiceSettings

PUBLIC_PATHS = ("/live", "/ready", "/")  # for health checks, and for the page that asks for the token
PUBLIC_PREFIX = "/page/"  # the dashboard's files, which hold no data
IMPORT_PATH = "/v1/import"
MAX_LENGTH_DIGITS = 18  # of a Content-Length header
# After a refusal the rest of the body is read, up to these limits, so that the client receives the response.
MAX_DISCARDED_BYTES, MAX_DISCARD_SECONDS = 64 * MEGABYTE, 2.0
SECURITY_HEADERS = {
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


class RequestChecks:
    """ASGI middleware that checks a request, reads its body and adds security headers to the response."""

    def __init__(
        self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics, stream_token_hash: Callable[[str], str | None]
    ) -> None:
        self.app, self._settings, self._metrics = app, settings, metrics
        self._stream_token_hash = stream_token_hash
        self._held_bytes = 0  # of all bodies that are in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body, or answer with a problem."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:  # no other protocol is supported
                await send({"type": "websocket.close", "code": 1008})
            return
        start, status, body = time.perf_counter(), 500, _Body()

        async def send_secured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_security_headers(message["headers"])
            await send(message)

        try:
            headers = Headers(scope=scope)
            try:
                self._check(scope, headers)
                await self._read(body, scope, headers, receive)
            except Problem as problem:
                await _refuse(problem, body, scope, receive, send_secured)
                return
            await self.app(scope, _replay(body, receive), send_secured)
        finally:
            self._held_bytes -= body.size
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.count_request(scope["method"], route, status, time.perf_counter() - start)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Refuse pages of other sites, and requests without a valid token."""
        host = headers.get("host", "")
        if not self._settings.token and _host_name(host) not in self._settings.allowed_hosts:
            raise Problem(
                403, "this server has no token, so the Host header must be a name of its own machine.",
                f"Use one of {', '.join(self._settings.allowed_hosts)}.",
            )  # fmt: skip
        hint = "Use the dashboard of this server."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Problem(403, "requests from pages of another origin are refused.", hint)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Problem(403, "requests from pages of another site are refused.", hint)
        path = scope["path"]
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIX):
            return
        parts = path.split("/")
        stream = parts[3] if parts[:3] == ["", "v1", "streams"] and len(parts) > 3 else ""
        stream_hash = (self._stream_token_hash(stream) or "") if stream else ""
        check_token(bearer_token(headers), self._settings.token, stream_hash)

    async def _read(self, body: _Body, scope: Scope, headers: Headers, receive: Receive) -> None:
        """Read the body, within the limits of size and time."""
        settings = self._settings
        max_bytes = settings.max_import_bytes if scope["path"] == IMPORT_PATH else settings.max_body_bytes
        length = headers.get("content-length", "0")
        if len(length) > MAX_LENGTH_DIGITS or not length.isdecimal() or int(length) > max_bytes:
            raise _too_large(max_bytes)
        try:
            async with asyncio.timeout(settings.body_seconds):
                while not body.complete:
                    chunk = body.take(await receive())
                    if body.size + len(chunk) > max_bytes:
                        raise _too_large(max_bytes)
                    if self._held_bytes + len(chunk) > settings.max_pending_bytes:
                        raise too_many_requests("this server is receiving too many bytes at once.", 2)
                    body.size += len(chunk)
                    self._held_bytes += len(chunk)
                    body.chunks.append(chunk)
        except TimeoutError:
            raise Problem(408, f"the body did not arrive within {settings.body_seconds:g} seconds.") from None


@dataclass
class _Body:
    """The part of a body that has arrived."""

    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    complete: bool = False

    def take(self, message: Message) -> bytes:
        """Return the bytes of a message, and note whether it is the last one."""
        self.complete = not message.get("more_body", False)
        if message["type"] == "http.disconnect":
            raise Problem(400, "the connection ended before the body was complete.")
        chunk: bytes = message.get("body", b"")
        return chunk


def _with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in headers}
    security = ((name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items())
    return [*headers, *((name, value) for name, value in security if name not in present)]


def _too_large(max_bytes: int) -> Problem:
    return Problem(413, f"the body is larger than {max_bytes / MEGABYTE:g} MB, the limit of this path.")


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _replay(body: _Body, receive: Receive) -> Receive:
    """Return a receive function that gives the whole body once, then the connection's messages."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        whole = b"".join(body.chunks)
        body.chunks.clear()
        return {"type": "http.request", "body": whole, "more_body": False}

    return replay


async def _refuse(problem: Problem, body: _Body, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem, then discard the rest of the body.

    A client that is still sending does not read the response otherwise.
    """
    response = problem_response(problem)
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    content = b"" if scope["method"] == "HEAD" else bytes(response.body)
    await send({"type": "http.response.body", "body": content, "more_body": True})
    discarded = 0
    with suppress(TimeoutError, Problem):
        async with asyncio.timeout(MAX_DISCARD_SECONDS):
            while not body.complete and discarded < MAX_DISCARDED_BYTES and problem.status != 408:
                discarded += len(body.take(await receive()))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
