"""The application: its routes, the middleware around them, its error handlers and its OpenAPI description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from cosmic_tta.core.version import __version__
from cosmic_tta.service.dashboard import routes as dashboard
from cosmic_tta.service.dashboard.state import DashboardState
from cosmic_tta.service.encoder_batching import EncoderLoader
from cosmic_tta.service.error_handlers import add_error_handlers
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.middleware import RequestChecks
from cosmic_tta.service.routes import learning, predictions, snapshots, streams
from cosmic_tta.service.routes.dependencies import refuse_unknown_parameters
from cosmic_tta.service.routes.operations import operations_router
from cosmic_tta.service.schemas import PredictBody
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.service.stream_host import StreamHost
from cosmic_tta.sessions.store import Store

DESCRIPTION = """Streams of images that are classified, and learned from, without labels.

Every error response is `{"error", "detail", "hint"}`. A step that was answered is on disk."""


def make_app(
    store: Store, settings: ServiceSettings | None = None, load_encoder: EncoderLoader | None = None
) -> FastAPI:
    """Make the ASGI application of a data folder.

    The streams are opened when the application starts, and closed with the store when it ends.

    Args:
        store: the sessions of the data folder.
        settings: limits, encoders and token; by default those of `ServiceSettings`.
        load_encoder: loads an encoder by name, kind and threads; by default into this process.

    Returns:
        A FastAPI application.

    >>> from tempfile import TemporaryDirectory
    >>> from starlette.testclient import TestClient
    >>> with TemporaryDirectory() as folder:
    ...     with TestClient(make_app(Store(folder)), base_url="http://127.0.0.1") as client:
    ...         client.get("/live").json()
    {'status': 'live'}
    """
    settings = settings or ServiceSettings()
    metrics, state = Metrics(), DashboardState()
    host = StreamHost(store, settings, metrics, state, load_encoder)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(host.open())  # meanwhile /live answers, and /ready answers 503
        opening.add_done_callback(_report_failure)
        try:
            yield
        finally:
            state.events.close()
            await asyncio.gather(opening, return_exceptions=True)
            await state.wait_for_thumbnails()
            await host.close()

    app = FastAPI(
        title="cosmic-tta",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
    )
    app.state.host, app.state.dashboard = host, state
    bearer = HTTPBearer(auto_error=False, description="The server's token, or the stream's.")
    described_auth = [Depends(bearer)] if settings.token else []  # for OpenAPI; the middleware checks the token
    for router in (streams.router, predictions.router, learning.router, snapshots.router, dashboard.api):
        app.include_router(router, dependencies=[Depends(refuse_unknown_parameters), *described_auth])
    app.include_router(operations_router(metrics, described_auth))
    app.include_router(dashboard.files)
    app.add_middleware(RequestChecks, settings=settings, metrics=metrics, stream_token_hash=host.token_hash)
    add_error_handlers(app)
    _describe_predict_body(app)
    return app


def _describe_predict_body(app: FastAPI) -> None:
    """Add the JSON body of the predict route to OpenAPI; that route parses its body itself."""
    openapi = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schemas = openapi()["components"]["schemas"]
            body = PredictBody.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(body.pop("$defs", {}))
            schemas["PredictBody"] = body
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign]


def _report_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "the streams cannot be opened", "exception": error}
        )
