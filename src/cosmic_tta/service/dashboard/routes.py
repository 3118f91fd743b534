"""Routes of the dashboard: its files, and the JSON, thumbnails and events that it shows."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from cosmic_tta.classifier import DEFAULT_AUX
from cosmic_tta.core.errors import install_extra
from cosmic_tta.core.version import __version__
from cosmic_tta.methods import METHODS
from cosmic_tta.service.dashboard import static_files, view_models
from cosmic_tta.service.dashboard.events import EventStream
from cosmic_tta.service.dashboard.state import DashboardState
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.routes.dependencies import Host, StreamPath
from cosmic_tta.service.routes.responses import STREAM_PROBLEMS, binary_response
from cosmic_tta.service.schemas import Text
from cosmic_tta.service.stream_factory import UNSUPPORTED_NEEDS

Json = dict[str, Any]
SCRIPT_CACHE_SECONDS, THUMBNAIL_CACHE_SECONDS = 86_400, 3600
JPEG = "image/jpeg"
files = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/v1", tags=["dashboard"], responses=STREAM_PROBLEMS)


def _get_dashboard_state(request: Request) -> DashboardState:
    state: DashboardState = request.app.state.dashboard
    return state


Dashboard = Annotated[DashboardState, Depends(_get_dashboard_state)]


# Files. They hold no data, so they need no token; the page asks for it.


@files.get("/")
async def get_index() -> Response:
    """Return the page."""
    return _static_file("index.html")


@files.get("/page/plotly.js")
async def get_plotly(request: Request) -> Response:
    """Return plotly.js from the installed package."""
    script = static_files.plotly_file()
    if script is None:
        raise Problem(404, "plotly is not installed, so charts are not drawn.", install_extra("serve"))
    headers = {
        **_policy(),
        "Cache-Control": f"private, max-age={SCRIPT_CACHE_SECONDS}",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        content = await asyncio.to_thread(static_files.compressed_plotly)
    else:
        content = await asyncio.to_thread(script.read_bytes)
    return Response(content, headers=headers, media_type=static_files.SCRIPT)


@files.get("/page/{name}")
async def get_file(name: str) -> Response:
    """Return one of the page's files, from a fixed list."""
    if name not in static_files.MEDIA_TYPES:
        raise Problem(404, "the dashboard has no such file.")
    return _static_file(name)


def _static_file(name: str) -> Response:
    return Response(static_files.read_file(name), headers=_policy(), media_type=static_files.MEDIA_TYPES[name])


def _policy() -> dict[str, str]:
    return {"Content-Security-Policy": static_files.CONTENT_POLICY}


# Data.


@api.get("/dashboard", summary="Summarize the server")
async def get_dashboard(host: Host) -> Json:
    """Return a summary of every stream, and the encoders and methods of new ones."""
    host.require_ready()
    return {
        "version": __version__,
        "streams": [
            view_models.stream_summary(queue, host.encoder_problem(queue.session.name)) for queue in host.queues()
        ],
        "damaged": host.damaged(),
        "encoders": [name for name in host.settings.encoders if name != DEFAULT_AUX],  # it has no text tower
        "methods": [name for name, kind in METHODS.items() if not set(kind.needs) & set(UNSUPPORTED_NEEDS)],
        "plotly": static_files.plotly_file() is not None,
    }


@api.get("/streams/{stream}/overview", summary="Summarize a stream")
async def get_overview(host: Host, state: Dashboard, stream: StreamPath) -> Json:
    """Return curves, confusions, uncertain predictions, sources, snapshots and alarms, of bounded size."""
    queue = host.queue(stream)
    thumbnails = await state.thumbnails(queue)
    overview = await host.query(queue, lambda session: view_models.overview(session, thumbnails))
    summary = view_models.stream_summary(queue, host.encoder_problem(stream))
    return {**summary, "preset": queue.session.metadata.get("preset", ""), **overview}


@api.get("/streams/{stream}/last-prediction", summary="Explain the last prediction")
async def get_last_prediction(host: Host, state: Dashboard, stream: StreamPath) -> Json:
    """Return the last prediction since the server started; `answer` is null before the first."""
    queue = host.queue(stream)
    last = state.events.last.get(stream)
    if last is None:
        return {"answer": None}
    thumbnails = await state.thumbnails(queue)
    answer = await host.query(queue, lambda session: view_models.explained_prediction(last, session, thumbnails))
    return {"answer": answer}


@api.get("/streams/{stream}/memory", summary="Describe what a stream holds of each class")
async def get_memory(
    host: Host,
    state: Dashboard,
    stream: StreamPath,
    offset: Annotated[int, Query(ge=0, le=100_000, description="First class.")] = 0,
    count: Annotated[int, Query(ge=1, le=100, description="Number of classes.")] = 24,
    find: Annotated[str, Query(max_length=400, description="Only classes whose name contains this text.")] = "",
) -> Json:
    """Return, per class, the number of samples in each memory and the steps with a thumbnail."""
    queue = host.queue(stream)
    thumbnails = await state.thumbnails(queue)
    return await host.query(queue, lambda session: view_models.memory(session, thumbnails, offset, count, find))


@api.get("/streams/{stream}/similar-classes", summary="List the classes most similar to one")
async def get_similar_classes(
    host: Host, stream: StreamPath, label: Annotated[Text, Query(description="Name of the class.")]
) -> Json:
    """Return the classes whose text features are most similar to those of a class."""
    task = host.queue(stream).session.task
    if label not in task.class_names:
        raise Problem(422, f"{label[:80]!r} is not a class of this stream.")
    return await asyncio.to_thread(view_models.similar_classes, task, label)


@api.get(
    "/streams/{stream}/thumbnails/{step}",
    summary="Read the thumbnail of a step",
    response_class=Response,
    responses=binary_response(JPEG, "What the encoder saw, at most 72 pixels wide and high."),
)
async def get_thumbnail(
    host: Host,
    state: Dashboard,
    stream: StreamPath,
    step: Annotated[int, Path(ge=0, le=2**63 - 1, description="Number of the step.")],
) -> Response:
    """Return a small image. Steps of features have none, and old ones are deleted."""
    thumbnails = await state.thumbnails(host.queue(stream))
    data = await asyncio.to_thread(thumbnails.read, step)
    if data is None:
        hint = "Steps of features have no thumbnail; old thumbnails are deleted."
        raise Problem(404, f"there is no thumbnail of step {step}.", hint)
    headers = {"Cache-Control": f"private, max-age={THUMBNAIL_CACHE_SECONDS}"}
    return Response(data, media_type=JPEG, headers=headers)


@api.get("/streams/{stream}/events", include_in_schema=False)
async def subscribe_events(host: Host, state: Dashboard, stream: StreamPath) -> Response:
    """Return the changes of a stream as server-sent events."""
    return EventStream(state.events, stream, host.queue(stream).session.number)
