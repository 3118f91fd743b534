"""Parameters that several routes share, and the check for unknown query parameters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BeforeValidator

from cosmic_tta.service.errors import Problem
from cosmic_tta.service.schemas import StreamName
from cosmic_tta.service.stream_host import StreamHost


def _get_host(request: Request) -> StreamHost:
    host: StreamHost = request.app.state.host
    return host


def _check_flag(value: Any) -> Any:
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value


def _check_whole_number(value: Any) -> Any:
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError("must be a whole number")
    return value


Host = Annotated[StreamHost, Depends(_get_host)]
StreamPath = Annotated[StreamName, Path(description="Name of the stream.", examples=["harbour"])]
Flag = Annotated[bool, BeforeValidator(_check_flag)]
WholeNumber = Annotated[int, BeforeValidator(_check_whole_number)]


def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have. A misspelled `lern=false` would learn otherwise."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        hint = f"Known parameters: {', '.join(sorted(known))}." if known else "This path has no query parameters."
        raise Problem(422, f"unknown query parameter {', '.join(name[:40] for name in unknown)!r}.", hint)
