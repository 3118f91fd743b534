"""Responses that several routes share: error descriptions, streams, acknowledgements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cosmic_tta.core.parameters import values
from cosmic_tta.service.errors import without_paths
from cosmic_tta.service.schemas import (
    Acknowledgement,
    ProblemBody,
    StreamBody,
)
from cosmic_tta.service.stream_host import StreamHost
from cosmic_tta.service.stream_queue import StreamQueue
from cosmic_tta.sessions.backend import SessionBackend

Responses = dict[int | str, dict[str, Any]]
_DESCRIPTIONS = {
    400: "The request cannot be parsed.",
    401: "The token is missing or not valid.",
    403: "The request is not allowed.",
    404: "There is no such stream.",
    405: "This path does not accept this method.",
    408: "The body arrived too slowly.",
    409: "The state of the stream does not allow the request.",
    413: "The body or an image is too large.",
    415: "The Content-Type is not supported.",
    422: "The request is not valid; nothing was changed.",
    429: "Too many requests; see Retry-After.",
    503: "The server is starting or closing; see Retry-After.",
    507: "The server's disk refused; the stream is unchanged.",
}


def problem_responses(*statuses: int) -> Responses:
    """Return the OpenAPI descriptions of error responses."""
    return {status: {"description": _DESCRIPTIONS[status], "model": ProblemBody} for status in statuses}


STREAM_PROBLEMS = problem_responses(*_DESCRIPTIONS)  # of the routes under /v1
SERVER_PROBLEMS = problem_responses(400, 401, 403, 405, 408, 413, 429)  # of every path
BINARY = {"schema": {"type": "string", "format": "binary"}}


def binary_response(media_type: str, description: str) -> Responses:
    """Return the OpenAPI description of a binary response."""
    return {200: {"description": description, "content": {media_type: BINARY}}}


async def query_stream(host: StreamHost, queue: StreamQueue) -> StreamBody:
    """Describe a stream, in its turn."""
    return await host.query(queue, lambda session: stream_body(host, queue, session))


def stream_body(host: StreamHost, queue: StreamQueue, session: SessionBackend) -> StreamBody:
    """Describe a stream."""
    metadata = session.metadata
    return StreamBody(
        name=session.name,
        id=queue.id,
        classes=list(session.task.class_names),
        method=session.method.name,
        preset=metadata.get("preset", ""),
        params=values(session.method),
        encoder=metadata.get("encoder"),
        aux=metadata.get("aux"),
        templates=metadata.get("templates"),
        views=metadata.get("views", 1),
        paused=session.paused,
        fallen_back=session.health.fallen_back,
        number=session.number,
        seen=session.seen,
        waiting=queue.pending,
        problem=host.encoder_problem(session.name),
        warnings=[without_paths(warning) for warning in session.warnings],
    )


async def change_stream(
    host: StreamHost, stream: str, done: str, function: Callable[[SessionBackend], object]
) -> Acknowledgement:
    """Change a stream, in its turn, and acknowledge it once it is on disk."""
    _, number = await host.change(host.queue(stream), done, function)
    return Acknowledgement(stream=stream, done=done, number=number)
