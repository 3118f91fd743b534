"""The application: routes, the gate around them, what becomes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from cosmic_tta import __version__
from cosmic_tta.errors import CosmicError
from cosmic_tta.service.encoding import Load
from cosmic_tta.service.gate import HEADERS, Gate
from cosmic_tta.service.hosting import Host
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.page.routes import Watch, page, watching
from cosmic_tta.service.refusals import Refused, on_cosmic, on_http, on_refused, on_validation, told
from cosmic_tta.service.routes import PredictBody, router
from cosmic_tta.service.schemas import Problem
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store

ABOUT = """Streams of pictures that are named, and learned from, without labels.

Every error is `{"error", "detail", "hint"}`. A step that was answered is on disk."""
SHARED: dict[int | str, dict[str, Any]] = {status: {"model": Problem} for status in (400, 401, 403, 405, 408, 413, 429)}


def make_app(store: Store, settings: Settings | None = None, load: Load | None = None) -> FastAPI:
    """Make the application over a data folder; its streams are opened when it starts, and closed when it ends."""
    settings = settings or Settings()
    metrics = Metrics()
    host = Host(store, settings, metrics, load)
    watch = Watch(host)
    bearer = HTTPBearer(auto_error=False, description="The server's token, or the stream's.")
    asked = [Depends(bearer)] if settings.token else []  # for the description; the gate has checked it

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(host.open())  # meanwhile /live answers, and /ready says not yet
        opening.add_done_callback(_told_if_failed)
        try:
            yield
        finally:
            watch.events.close()
            await asyncio.gather(opening, return_exceptions=True)
            await watch.settle()
            await host.close()

    app = FastAPI(
        title="cosmic-tta",
        version=__version__,
        description=ABOUT,
        lifespan=life,
        docs_url=None,  # their pages would come from other hosts
        redoc_url=None,
    )
    app.state.host, app.state.watch = host, watch
    app.include_router(router, dependencies=[Depends(_known_words), *asked])
    app.include_router(watching, dependencies=[Depends(_known_words), *asked])
    app.include_router(page)
    _watched(app, host, metrics, asked)
    app.add_middleware(Gate, settings=settings, metrics=metrics, stream_hash=host.stream_hash)
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(CosmicError, on_cosmic)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_any)
    _describe(app)
    return app


def _known_words(request: Request) -> None:
    """Refuse a word after the address's question mark that means nothing here: `lern=false` would let it learn."""
    known = {one.alias for one in request.scope["route"].dependant.query_params}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        hint = f"It takes {', '.join(sorted(known))}." if known else "It takes none."
        raise Refused(422, f"this address takes no {', '.join(one[:40] for one in unknown)!r}.", hint)


def _watched(app: FastAPI, host: Host, metrics: Metrics, asked: Sequence[Any]) -> None:
    """Add what those who watch the server ask."""

    @app.get("/live", tags=["watching"], summary="Whether the process runs", responses=_shared())
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/ready", tags=["watching"], summary="Whether it takes requests", responses=_shared(503))
    async def ready() -> dict[str, str]:
        if not host.ready:
            raise Refused(503, "the server is still reading its streams from disk.", headers={"Retry-After": "2"})
        return {"status": "ready"}

    @app.get(
        "/metrics",
        tags=["watching"],
        summary="Figures for Prometheus",
        dependencies=asked,
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_shared()},
    )
    async def figures() -> Response:
        for name, lane in host.lanes.items():
            metrics.waiting.labels(name).set(lane.inside)
        metrics.streams.labels("open").set(len(host.lanes))
        metrics.streams.labels("damaged").set(len(host.store.damaged()))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _shared(*more: int) -> dict[int | str, dict[str, Any]]:
    return {**SHARED, **{status: {"model": Problem} for status in more}}


def _describe(app: FastAPI) -> None:
    """Put the predict route's JSON body, which it reads itself, into the description."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = plain()
            body = PredictBody.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas = schema["components"]["schemas"]
            schemas.update(body.pop("$defs", {}))
            schemas["PredictBody"] = body
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign]


async def _on_http(request: Request, error: Exception) -> Response:
    response = await on_http(request, error)
    if response.status_code == 405:
        response.headers["Allow"] = ", ".join(_allowed(request.app.routes, request.scope))
    return response


def _allowed(routes: Sequence[Any], scope: Any) -> list[str]:
    """Return the methods of all routes at an address; Starlette tells those of the first."""
    methods: set[str] = set()
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            methods |= set(_allowed(inner.routes, scope))
        elif route.matches(scope)[0] is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return sorted(methods)


async def _on_any(_: Request, error: Exception) -> Response:
    # The log has the rest; a client is told nothing of what is inside.
    return told(Refused(500, f"something went wrong here ({type(error).__name__}).", headers=HEADERS))


def _told_if_failed(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        asyncio.get_running_loop().call_exception_handler({"message": "the streams cannot be read", "exception": error})
