"""The routes under /v1: thin, each asks the host and puts the answer into its form."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from cosmic_tta.parameters import values
from cosmic_tta.service.bodies import read
from cosmic_tta.service.health import guarded
from cosmic_tta.service.hosting import Host
from cosmic_tta.service.lanes import Answers, Lane
from cosmic_tta.service.refusals import Refused, placeless
from cosmic_tta.service.schemas import (
    Answer,
    ChangeClasses,
    Created,
    CreateStream,
    DamagedInfo,
    Done,
    Labels,
    MakeSnapshot,
    PredictBody,
    Predicted,
    Predictions,
    Problem,
    RollBack,
    Snapshot,
    Snapshots,
    Source,
    SourceInfo,
    Sources,
    StreamInfo,
    StreamList,
    StreamName,
    Undo,
)
from cosmic_tta.session import Answered, Session

REFUSALS = {
    400: "The request cannot be read.",
    401: "No token, or not the right one.",
    403: "Not for whoever asks, or not from there.",
    404: "There is no such stream.",
    405: "This address does not take this method.",
    408: "The body came too slowly.",
    409: "Not in the state that the stream is in.",
    413: "Larger than what is taken here.",
    415: "A body of an unknown type.",
    422: "Understood, but it cannot be done; nothing was changed.",
    429: "Too many requests at once; see Retry-After.",
    503: "Starting or closing; see Retry-After.",
    507: "The server's disk refused; the stream is as it was.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": said, "model": Problem} for status, said in REFUSALS.items()
}
PICTURE = {"schema": {"type": "string", "format": "binary"}}
PREDICT_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/PredictBody"}},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["pictures"],
                "properties": {
                    "pictures": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "string", "format": "binary"},
                        "description": "Files: JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF.",
                    }
                },
            }
        },
        "image/jpeg": PICTURE,
        "image/png": PICTURE,
        "application/octet-stream": PICTURE,
    },
}


def _plain(given: Any) -> Any:
    """A flag in an address is written true or false, in no other way."""
    if isinstance(given, str) and given not in ("true", "false"):
        raise ValueError("must be true or false")
    return given


def _whole(given: Any) -> Any:
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        raise ValueError("must be a whole number")
    return given


Flag = Annotated[bool, BeforeValidator(_plain)]
Name = Annotated[StreamName, Path(description="The stream's name.", examples=["harbour"])]
router = APIRouter(prefix="/v1", responses=RESPONSES)


def _host(request: Request) -> Host:
    host: Host = request.app.state.host
    return host


@router.post("/streams", status_code=201, summary="Create a stream", tags=["streams"])
async def create(request: Request, wanted: CreateStream) -> Created:
    """Make a stream. It starts without knowledge and is on disk when the answer leaves."""
    host = _host(request)
    lane, token = await host.create(wanted)
    info = await host.look(lane, lambda session: _info(host, lane, session))
    return Created(**info.model_dump(), token=token)


@router.get("/streams", summary="List the streams", tags=["streams"])
async def listing(request: Request) -> StreamList:
    """Tell all streams, and those whose files are damaged."""
    host = _host(request)
    host.require_ready()
    streams = [_info(host, lane, lane.session) for _, lane in sorted(host.lanes.items())]
    return StreamList(streams=streams, damaged=[DamagedInfo(**one) for one in host.damaged()])


@router.get("/streams/{stream}", summary="Describe a stream", tags=["streams"])
async def describe(
    request: Request,
    stream: Name,
    digest: Annotated[Flag, Query(description="Tell the fingerprint of its state too.")] = False,
) -> StreamInfo:
    """Tell what a stream is, how far it is and how it does."""
    host = _host(request)
    lane = host.lane(stream)

    def look(session: Session) -> StreamInfo:
        info = _info(host, lane, session)
        return info.model_copy(
            update={
                "monitor": session.monitor.describe(),
                "digest": session.digest() if digest else None,
                **guarded(session),
            }
        )

    return await host.look(lane, look)


@router.delete("/streams/{stream}", summary="Delete a stream", tags=["streams"])
async def delete(request: Request, stream: Name) -> Done:
    """Remove a stream and its files. A damaged one is named by its id."""
    await _host(request).delete(stream)
    return Done(stream=stream, done="deleted", number=0)


@router.post("/streams/{stream}/recover", summary="Open a damaged stream with what is left", tags=["streams"])
async def recover(request: Request, stream: Name) -> StreamInfo:
    """Keep the events before the damage; the rest is laid aside, not removed. The stream is named by its id."""
    host = _host(request)
    lane = await host.recover(stream)
    return await host.look(lane, lambda session: _info(host, lane, session))


@router.post(
    "/streams/{stream}/predict",
    summary="Name what is on pictures, and learn from them",
    tags=["pictures"],
    openapi_extra={"requestBody": PREDICT_BODY},
)
async def predict(
    request: Request,
    stream: Name,
    learn: Annotated[Flag, Query(description="false: only look.")] = True,
    top: Annotated[
        int | None, BeforeValidator(_whole), Query(ge=1, le=10_000, description="So many classes; all if left out.")
    ] = None,
    why: Annotated[Flag, Query(description="Tell what spoke for each answer.")] = False,
    source: Annotated[Source | None, Query(description="Where the pictures come from; may be undone by it.")] = None,
) -> Predictions:
    """Answer with the classes, the most probable first. A learned step is on disk before its answer leaves."""
    host = _host(request)
    lane = host.lane(stream)
    asked = await read(request, host.settings)
    answers = await host.predict(lane, asked, learn=learn, source=source)
    if why:  # it is built when asked for, which takes a moment
        return await asyncio.to_thread(_predictions, stream, answers, top, True)
    return _predictions(stream, answers, top, False)


@router.post("/streams/{stream}/labels", summary="Tell what pictures turned out to be", tags=["pictures"])
async def labels(request: Request, stream: Name, wanted: Labels) -> Done:
    """Late labels are for the monitor only: no method ever sees one. All are recorded, or none."""
    pairs = [(one.step, one.label) for one in wanted.labels]
    return await _change(request, stream, "labelled", lambda session: session.labels(pairs))


@router.post("/streams/{stream}/pause", summary="Stop learning", tags=["learning"])
async def pause(request: Request, stream: Name) -> Done:
    """From here on the stream answers by what it knows, and learns nothing."""
    return await _change(request, stream, "paused", lambda session: session.pause())


@router.post("/streams/{stream}/resume", summary="Learn again", tags=["learning"])
async def resume(request: Request, stream: Name) -> Done:
    """Go on learning."""
    return await _change(request, stream, "resumed", lambda session: session.resume())


@router.post("/streams/{stream}/reset", summary="Forget all that was learned", tags=["learning"])
async def reset(request: Request, stream: Name) -> Done:
    """Start again without knowledge; snapshots stay, and one can be gone back to."""
    return await _change(request, stream, "reset", lambda session: session.reset())


@router.post("/streams/{stream}/classes", summary="Add, remove and rename classes", tags=["learning"])
async def classes(request: Request, stream: Name, wanted: ChangeClasses) -> StreamInfo:
    """Change the classes in one go; what was learned stays with the names that stay."""
    host = _host(request)
    lane = host.lane(stream)
    await host.change_classes(lane, wanted)
    return await host.look(lane, lambda session: _info(host, lane, session))


@router.post("/streams/{stream}/snapshots", status_code=201, summary="Make a snapshot", tags=["snapshots"])
async def make_snapshot(request: Request, stream: Name, wanted: MakeSnapshot) -> Snapshot:
    """Write the state to disk; one with a note is not pruned."""
    host = _host(request)
    made = await host.change(host.lane(stream), "snapshot", lambda session: session.snapshot(wanted.note))
    return Snapshot(id=made.id, number=made.number, note=made.note)


@router.get("/streams/{stream}/snapshots", summary="List the snapshots", tags=["snapshots"])
async def list_snapshots(request: Request, stream: Name) -> Snapshots:
    """Tell what can be gone back to, the newest first."""
    host = _host(request)
    found = await host.look(host.lane(stream), lambda session: session.snapshots())
    return Snapshots(stream=stream, snapshots=[Snapshot(id=one.id, number=one.number, note=one.note) for one in found])


@router.delete("/streams/{stream}/snapshots/{snapshot}", summary="Remove a snapshot", tags=["snapshots"])
async def remove_snapshot(
    request: Request, stream: Name, snapshot: Annotated[str, Path(max_length=20, description="Its id.")]
) -> Done:
    """Remove a snapshot, also one with a note; the newest stays."""
    return await _change(request, stream, "removed", lambda session: session.drop_snapshot(snapshot))


@router.get("/streams/{stream}/sources", summary="List the sources", tags=["learning"])
async def list_sources(request: Request, stream: Name) -> Sources:
    """Tell who had a part in what was learned, and since when."""
    host = _host(request)
    found = await host.look(host.lane(stream), lambda session: dict(session.sources))
    told = [SourceInfo(name=name, first=first, samples=samples) for name, (first, samples) in found.items()]
    return Sources(stream=stream, sources=told)


@router.post("/streams/{stream}/roll-back", summary="Go back to a snapshot", tags=["snapshots"])
async def roll_back(request: Request, stream: Name, wanted: RollBack) -> Done:
    """Take up the state of a snapshot; what came after it is forgotten by the stream, not by the journal."""
    return await _change(request, stream, "rolled back", lambda session: session.roll_back(wanted.snapshot))


@router.get(
    "/streams/{stream}/export",
    summary="Export a stream",
    tags=["snapshots"],
    response_class=Response,
    responses={200: {"description": "One file.", "content": {"application/octet-stream": PICTURE}}},
)
async def export(request: Request, stream: Name) -> Response:
    """Return the stream as one file, which /v1/import takes."""
    host = _host(request)
    data = await host.export(host.lane(stream))
    headers = {"Content-Disposition": 'attachment; filename="stream.cosmic"'}
    return Response(data, headers=headers, media_type="application/octet-stream")


@router.post(
    "/import",
    status_code=201,
    summary="Import a stream",
    tags=["snapshots"],
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": PICTURE}}},
)
async def import_(
    request: Request, name: Annotated[StreamName, Query(description="What the stream is to be called here.")]
) -> StreamInfo:
    """Make a stream of an exported file."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/octet-stream":
        raise Refused(
            415,
            "an exported stream is sent as it is.",
            "curl --data-binary @FILE -H 'Content-Type: application/octet-stream'",
        )
    host = _host(request)
    lane = await host.import_(name, await request.body())
    return await host.look(lane, lambda session: _info(host, lane, session))


@router.post("/streams/{stream}/undo", summary="Undo a source", tags=["learning"])
async def undo(request: Request, stream: Name, wanted: Undo) -> Done:
    """Make the stream what it were had the pictures of a source never come."""
    return await _change(request, stream, "undone", lambda session: session.without(wanted.source))


async def _change(request: Request, stream: str, done: str, call: Any) -> Done:
    host = _host(request)

    def change(session: Session) -> int:
        call(session)
        return session.number

    return Done(stream=stream, done=done, number=await host.change(host.lane(stream), done, change))


def _info(host: Host, lane: Lane, session: Session) -> StreamInfo:
    about = session.about
    return StreamInfo(
        name=session.name,
        id=lane.id,
        classes=list(session.task.class_names),
        method=session.method.name,
        preset=about.get("preset", ""),
        params=values(session.method),
        encoder=about.get("encoder"),
        aux=about.get("aux"),
        templates=about.get("templates"),
        views=about.get("views", 1),
        paused=session.paused,
        fallen_back=session.glance.fallen_back,
        number=session.number,
        seen=session.seen,
        waiting=lane.inside,
        problem=host.problems.get(session.name, ""),
        warnings=[placeless(one) for one in session.warnings],
    )


def _predictions(stream: str, answers: Answers, top: int | None, why: bool) -> Predictions:
    return Predictions(
        stream=stream, predictions=[_predicted(one, answers.class_names, top, why) for one in answers.answered]
    )


def _predicted(answered: Answered, names: Sequence[str], top: int | None, why: bool) -> Predicted:
    scores = answered.prediction.scores
    order = np.argsort(-scores, kind="stable")[:top]
    return Predicted(
        step=answered.number if answered.number >= 0 else None,
        learned=answered.learned,
        reason=answered.reason,
        answers=[Answer(label=names[k], score=float(scores[k])) for k in order],
        why=answered.prediction.why.plain() if why else None,
    )


__all__ = ["PredictBody", "router"]
