"""The routes of the page: thin; those under /v1 ask the host like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from cosmic_tta import __version__
from cosmic_tta.classifier import DEFAULT_AUX
from cosmic_tta.core import Sample
from cosmic_tta.methods import METHODS
from cosmic_tta.service.hosting import Host
from cosmic_tta.service.lanes import Answers, Lane
from cosmic_tta.service.making import LACKING
from cosmic_tta.service.page import files, telling
from cosmic_tta.service.page.events import Events, EventStream
from cosmic_tta.service.page.holding import holdings
from cosmic_tta.service.page.thumbnails import Thumbnails, fingerprint
from cosmic_tta.service.refusals import Refused
from cosmic_tta.service.routes import RESPONSES, Name
from cosmic_tta.service.schemas import Words
from cosmic_tta.session import Session

Json = dict[str, Any]
DAY = 86_400
page = APIRouter(include_in_schema=False)
watching = APIRouter(prefix="/v1", responses=RESPONSES, tags=["page"])


class Watch:
    """What is kept for those who watch: events, small pictures, the last answers."""

    def __init__(self, host: Host) -> None:
        self.host, self.events = host, Events()
        self._thumbnails: dict[str, Thumbnails] = {}  # by id
        self._tasks: dict[asyncio.Task[None], str] = {}  # keeping small pictures, with the stream's id
        host.listeners.append(self.events.heard)
        host.shown = self.shown

    async def thumbnails(self, lane: Lane) -> Thumbnails:
        """Return a stream's small pictures, with those of every picture that was answered before."""
        await self.settle(lane.id)
        return await self._album(lane)

    async def _album(self, lane: Lane) -> Thumbnails:
        if lane.id not in self._thumbnails:
            found = await asyncio.to_thread(Thumbnails, lane.session.folder)
            there = {other.id for other in self.host.lanes.values()}
            self._thumbnails = {key: one for key, one in self._thumbnails.items() if key in there}
            self._thumbnails.setdefault(lane.id, found)
        return self._thumbnails[lane.id]

    def shown(
        self, lane: Lane, answers: Answers, samples: Sequence[Sample], pixels: Sequence[NDArray[np.uint8]]
    ) -> None:
        """Keep small pictures of what was shown, beside the request's way."""
        task = asyncio.get_running_loop().create_task(self._keep(lane, answers, samples, pixels))
        self._tasks[task] = lane.id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _keep(
        self, lane: Lane, answers: Answers, samples: Sequence[Sample], pixels: Sequence[NDArray[np.uint8]]
    ) -> None:
        thumbnails = await self._album(lane)
        for answered, sample, picture in zip(answers.answered, samples, pixels, strict=True):
            await asyncio.to_thread(thumbnails.keep, answered.number, sample, picture)
        self.events.heard(lane.session.name, "pictures", None)
        if thumbnails.full:
            held = await self.host.look(lane, _held)
            await asyncio.to_thread(thumbnails.prune, held)

    async def settle(self, stream: str | None = None) -> None:
        """Wait for the small pictures that are under way, of one stream or of all."""
        waiting = [task for task, lane in self._tasks.items() if stream in (None, lane)]
        if waiting:
            await asyncio.wait(waiting)


def _held(session: Session) -> frozenset[str]:
    return frozenset(fingerprint(row) for one in holdings(session.state) for row in one.rows)


def _watch(request: Request) -> Watch:
    watch: Watch = request.app.state.watch
    return watch


# Files: they tell nothing, so that they need no token; the page asks for it.


@page.get("/")
async def index() -> Response:
    """Return the page."""
    return Response(files.content("index.html"), headers=_policy(), media_type=files.KINDS["index.html"])


@page.get("/page/plotly.js")
async def plotly(request: Request) -> Response:
    """Return plotly.js from the installed wheel."""
    script = files.plotly_file()
    if script is None:
        raise Refused(404, "plotly is not installed here, so charts are not drawn.", "pip install 'cosmic-tta[serve]'")
    headers = {**_policy(), "Cache-Control": f"private, max-age={DAY}", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(await asyncio.to_thread(files.plotly_packed), headers=headers, media_type=files.SCRIPT)
    return Response(await asyncio.to_thread(script.read_bytes), headers=headers, media_type=files.SCRIPT)


@page.get("/page/{name}")
async def file(name: str) -> Response:
    """Return one of the page's files, out of a fixed list."""
    if name not in files.KINDS:
        raise Refused(404, "the page has no such file.")
    return Response(files.content(name), headers=_policy(), media_type=files.KINDS[name])


def _policy() -> dict[str, str]:
    return {"Content-Security-Policy": files.POLICY}


# What it asks.


@watching.get("/watch", summary="All streams at a glance")
async def watch_all(request: Request) -> Json:
    """Tell the streams and their health, and what a new one can be made of; classes are counted, not named."""
    host = _watch(request).host
    host.require_ready()
    return {
        "version": __version__,
        "streams": [_glance(host, lane) for _, lane in sorted(host.lanes.items())],
        "damaged": host.damaged(),
        "encoders": [name for name in host.settings.encoders if name != DEFAULT_AUX],  # which has no words
        "methods": [name for name, kind in METHODS.items() if not set(kind.needs) & set(LACKING)],
        "plotly": files.plotly_file() is not None,
    }


def _glance(host: Host, lane: Lane) -> Json:
    session = lane.session
    return {
        "name": session.name,
        "id": lane.id,
        "method": session.method.name,
        "encoder": session.about.get("encoder"),
        "classes": session.task.classes,
        "paused": session.paused,
        "number": session.number,
        "seen": session.seen,
        "waiting": lane.inside,
        "problem": host.problems.get(session.name, ""),
        "warnings": len(session.warnings),
        **session.glance._asdict(),
    }


@watching.get("/streams/{stream}/overview", summary="How a stream does, for the page")
async def overview(request: Request, stream: Name) -> Json:
    """Tell curves, confusions, unsure answers, sources, snapshots and alarms: bounded, whatever the stream's size."""
    watch = _watch(request)
    lane = watch.host.lane(stream)
    thumbnails = await watch.thumbnails(lane)
    told = await watch.host.look(lane, lambda session: telling.overview(session, thumbnails))
    return {**_glance(watch.host, lane), "preset": lane.session.about.get("preset", ""), **told}


@watching.get("/streams/{stream}/last", summary="The last answer and what spoke for it")
async def last(request: Request, stream: Name) -> Json:
    """Tell the last answer since the server started; `answer` is null before the first."""
    watch = _watch(request)
    lane = watch.host.lane(stream)
    found = watch.events.last.get(stream)
    if found is None:
        return {"answer": None}
    thumbnails = await watch.thumbnails(lane)
    one, names = found

    def tell(session: Session) -> Json:
        same = session.task.class_names == names
        state = session.state if same else None
        reason = getattr(one, "reason", "")
        return telling.answered(one.number, one.learned, reason, one.prediction, names, state, thumbnails)

    return {"answer": await watch.host.look(lane, tell)}


@watching.get("/streams/{stream}/memory", summary="What is held of each class")
async def memory(
    request: Request,
    stream: Name,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
    count: Annotated[int, Query(ge=1, le=100)] = 24,
    find: Annotated[str, Query(max_length=400, description="Only classes with this in their names.")] = "",
) -> Json:
    """Tell, class by class, how many samples are held and which small pictures there are of them."""
    watch = _watch(request)
    lane = watch.host.lane(stream)
    thumbnails = await watch.thumbnails(lane)
    return await watch.host.look(lane, lambda session: telling.memory(session, thumbnails, offset, count, find))


@watching.get("/streams/{stream}/kin", summary="The classes whose texts are nearest to one")
async def kin(request: Request, stream: Name, label: Annotated[Words, Query(description="A class.")]) -> Json:
    """Tell which classes a class is most easily taken for, by their texts."""
    host = _watch(request).host
    task = host.lane(stream).session.task
    if label not in task.class_names:
        raise Refused(422, f"{label[:80]!r} is none of this stream's classes.")
    return await asyncio.to_thread(telling.kin, task, label)


@watching.get(
    "/streams/{stream}/thumbnails/{step}",
    summary="A small picture of a step",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def thumbnail(request: Request, stream: Name, step: Annotated[int, Path(ge=0, le=2**63 - 1)]) -> Response:
    """Return what the encoder saw, small. There is none of features, nor of pictures long gone."""
    watch = _watch(request)
    thumbnails = await watch.thumbnails(watch.host.lane(stream))
    data = await asyncio.to_thread(thumbnails.read, step)
    if data is None:
        raise Refused(404, f"there is no small picture of step {step}.", "Features have none; old ones are dropped.")
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


@watching.get("/streams/{stream}/events", include_in_schema=False)
async def events(request: Request, stream: Name) -> Response:
    """Tell what happens to a stream, live, as server-sent events."""
    watch = _watch(request)
    lane = watch.host.lane(stream)
    return EventStream(watch.events, stream, lane.session.number)
