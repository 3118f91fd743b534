"""Routes that create, list, describe, delete, recover, export and import streams."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from cosmic_tta.service.errors import Problem
from cosmic_tta.service.routes.dependencies import Flag, Host, StreamPath
from cosmic_tta.service.routes.responses import BINARY, STREAM_PROBLEMS, binary_response, query_stream, stream_body
from cosmic_tta.service.schemas import (
    Acknowledgement,
    CreatedStream,
    CreateStream,
    DamagedStream,
    StreamBody,
    StreamList,
    StreamName,
)
from cosmic_tta.service.stream_status import alarm_status
from cosmic_tta.sessions.backend import SessionBackend

EXPORT_TYPE = "application/octet-stream"
router = APIRouter(prefix="/v1", tags=["streams"], responses=STREAM_PROBLEMS)


@router.post("/streams", status_code=201, summary="Create a stream")
async def create_stream(host: Host, body: CreateStream) -> CreatedStream:
    """Create a stream that has learned nothing yet. It is on disk when the response is sent."""
    queue, token = await host.create(body)
    stream = await query_stream(host, queue)
    return CreatedStream(**stream.model_dump(), token=token)


@router.get("/streams", summary="List the streams")
async def list_streams(host: Host) -> StreamList:
    """List all streams, and those whose files are damaged."""
    host.require_ready()
    streams = [stream_body(host, queue, queue.session) for queue in host.queues()]
    return StreamList(streams=streams, damaged=[DamagedStream(**damaged) for damaged in host.damaged()])


@router.get("/streams/{stream}", summary="Describe a stream")
async def get_stream(
    host: Host,
    stream: StreamPath,
    digest: Annotated[Flag, Query(description="Include a fingerprint of the state.")] = False,
) -> StreamBody:
    """Return a stream's configuration, progress, accuracies and alarms."""
    queue = host.queue(stream)

    def describe(session: SessionBackend) -> StreamBody:
        details = {
            "monitor": session.monitor.describe(),
            "digest": session.digest() if digest else None,
            **alarm_status(session),
        }
        return stream_body(host, queue, session).model_copy(update=details)

    return await host.query(queue, describe)


@router.delete("/streams/{stream}", summary="Delete a stream")
async def delete_stream(host: Host, stream: StreamPath) -> Acknowledgement:
    """Delete a stream and its files. A damaged stream may be named by its id."""
    await host.delete(stream)
    return Acknowledgement(stream=stream, done="deleted", number=0)


@router.post("/streams/{stream}/recover", summary="Recover a damaged stream")
async def recover_stream(host: Host, stream: StreamPath) -> StreamBody:
    """Open a damaged stream with the events before the damage. Later events are quarantined, not deleted.

    The stream is named by its id.
    """
    return await query_stream(host, await host.recover(stream))


@router.get(
    "/streams/{stream}/export",
    summary="Export a stream",
    response_class=Response,
    responses=binary_response(EXPORT_TYPE, "The stream as one file."),
)
async def export_stream(host: Host, stream: StreamPath) -> Response:
    """Return the stream as one file, which `POST /v1/import` accepts."""
    data = await host.export(host.queue(stream))
    headers = {"Content-Disposition": 'attachment; filename="stream.cosmic"'}
    return Response(data, headers=headers, media_type=EXPORT_TYPE)


@router.post(
    "/import",
    status_code=201,
    summary="Import a stream",
    openapi_extra={"requestBody": {"required": True, "content": {EXPORT_TYPE: BINARY}}},
)
async def import_stream(
    request: Request, host: Host, name: Annotated[StreamName, Query(description="Name of the new stream.")]
) -> StreamBody:
    """Create a stream from an exported file."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != EXPORT_TYPE:
        raise Problem(
            415,
            f"an exported stream must be sent as {EXPORT_TYPE}.",
            f"Example: curl --data-binary @FILE -H 'Content-Type: {EXPORT_TYPE}'.",
        )
    return await query_stream(host, await host.import_(name, await request.body()))
