"""Exception handlers of the application: every exception becomes a problem response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.service.errors import Problem, problem_from_error, problem_from_validation, problem_response
from cosmic_tta.service.middleware import SECURITY_HEADERS


def add_error_handlers(app: FastAPI) -> None:
    """Register a handler for every kind of exception."""
    app.add_exception_handler(Problem, _handle_problem)
    app.add_exception_handler(CosmicError, _handle_cosmic_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(Exception, _handle_unexpected_error)


async def _handle_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _handle_cosmic_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, CosmicError)
    return problem_response(problem_from_error(error))


async def _handle_validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(problem_from_validation(error.errors()))


async def _handle_http_error(request: Request, error: Exception) -> Response:
    """Answer what Starlette and FastAPI refuse themselves: an unknown path or method, a malformed form."""
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing at this path.", 405: "this path does not accept this method."}
    detail = details.get(error.status_code, str(error.detail))
    response = problem_response(Problem(error.status_code, detail, headers=error.headers))
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(sorted(_allowed_methods(request.app.routes, request.scope)))
    return response


def _allowed_methods(routes: Sequence[Any], scope: Any) -> set[str]:
    """Return the methods of all routes at a path; Starlette lists those of the first one."""
    methods: set[str] = set()
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            methods |= _allowed_methods(included.routes, scope)
        elif route.matches(scope)[0] is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return methods


async def _handle_unexpected_error(_: Request, error: Exception) -> Response:
    """Answer 500 without internals; the log has them. This handler runs outside the middleware."""
    detail = f"an unexpected error occurred on the server ({type(error).__name__})."
    return problem_response(Problem(500, detail, headers=SECURITY_HEADERS))
