"""Routes for the operator: liveness, readiness and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.routes.dependencies import Host
from cosmic_tta.service.routes.responses import SERVER_PROBLEMS, problem_responses

PROMETHEUS_TYPE = "text/plain; version=0.0.4"


def operations_router(metrics: Metrics, metrics_dependencies: Sequence[Any]) -> APIRouter:
    """Return the routes for the operator.

    Args:
        metrics: the metrics of this server.
        metrics_dependencies: dependencies of `/metrics`, which needs a token if the server has one.
    """
    router = APIRouter(tags=["operations"], responses=SERVER_PROBLEMS)

    @router.get("/live", summary="Check that the process runs")
    async def check_live() -> dict[str, str]:
        """Return at once, even while streams are read from disk."""
        return {"status": "live"}

    @router.get("/ready", summary="Check that the server accepts requests", responses=problem_responses(503))
    async def check_ready(host: Host) -> dict[str, str]:
        """Return 503 while streams are read from disk."""
        host.require_ready()
        return {"status": "ready"}

    @router.get(
        "/metrics",
        summary="Read metrics for Prometheus",
        dependencies=metrics_dependencies,
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def get_metrics(host: Host) -> Response:
        """Return all metrics in Prometheus's text format."""
        host.update_metrics()
        return Response(metrics.render(), media_type=PROMETHEUS_TYPE)

    return router
