"""Routes that control what a stream learns: pause, resume, reset, classes and sources."""

from __future__ import annotations

from fastapi import APIRouter

from cosmic_tta.service.routes.dependencies import Host, StreamPath
from cosmic_tta.service.routes.responses import STREAM_PROBLEMS, change_stream, query_stream
from cosmic_tta.service.schemas import (
    Acknowledgement,
    ChangeClasses,
    ForgetSource,
    SourceBody,
    SourceList,
    StreamBody,
)

router = APIRouter(prefix="/v1/streams/{stream}", tags=["learning"], responses=STREAM_PROBLEMS)


@router.post("/pause", summary="Stop learning")
async def pause_stream(host: Host, stream: StreamPath) -> Acknowledgement:
    """Stop learning. The stream still predicts, with what it has learned."""
    return await change_stream(host, stream, "paused", lambda session: session.pause())


@router.post("/resume", summary="Continue learning")
async def resume_stream(host: Host, stream: StreamPath) -> Acknowledgement:
    """Continue learning after a pause or a fallback to zero-shot."""
    return await change_stream(host, stream, "resumed", lambda session: session.resume())


@router.post("/reset", summary="Forget all that was learned")
async def reset_stream(host: Host, stream: StreamPath) -> Acknowledgement:
    """Start again with an empty state. Snapshots stay, and the stream can return to one."""
    return await change_stream(host, stream, "reset", lambda session: session.reset())


@router.post("/classes", summary="Add, remove and rename classes")
async def change_classes(host: Host, stream: StreamPath, body: ChangeClasses) -> StreamBody:
    """Change the classes in one request. Classes that stay keep what was learned."""
    queue = host.queue(stream)
    await host.change_classes(queue, body)
    return await query_stream(host, queue)


@router.get("/sources", summary="List the sources")
async def list_sources(host: Host, stream: StreamPath) -> SourceList:
    """List the sources that contributed to what was learned."""
    found = await host.query(host.queue(stream), lambda session: dict(session.sources))
    sources = [SourceBody(name=name, first=first, samples=samples) for name, (first, samples) in found.items()]
    return SourceList(stream=stream, sources=sources)


@router.post("/forget-source", summary="Forget a source")
async def forget_source(host: Host, stream: StreamPath, body: ForgetSource) -> Acknowledgement:
    """Replay the stream without the images of one source, as if it had never sent any."""
    return await change_stream(host, stream, "source forgotten", lambda session: session.forget_source(body.source))
