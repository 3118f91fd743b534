"""Errors of the service: every one becomes a response `{"error", "detail", "hint"}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from cosmic_tta.core.errors import CosmicError, LockedError, SessionError, SessionFormatError, StorageError

MAX_DETAIL = 600  # characters; a detail may quote long words of the client
MAX_LISTED = 5  # problems of one body that are listed
ERROR_CODES: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_type",
    422: "invalid",
    429: "busy",
    500: "internal_error",
    503: "not_ready",
    507: "storage_error",
}
HINTS: Mapping[int, str] = {
    400: "Check the form of the request; GET /openapi.json describes every route.",
    401: "Send the token in a header: Authorization: Bearer TOKEN.",
    403: "Ask the operator of this server.",
    404: "GET /v1/streams lists the streams; GET /openapi.json describes every route.",
    405: "The Allow header lists the methods of this path.",
    406: "Accept application/json.",
    408: "Send the body faster, or in smaller requests.",
    409: "Check the stream first: GET /v1/streams/NAME.",
    413: "Send fewer or smaller images.",
    415: "Send application/json, multipart/form-data or an image.",
    422: "Correct the request and send it again; nothing was learned from it.",
    429: "Wait for the seconds in Retry-After, then send it again; nothing was learned from it.",
    500: "The server's log has the details.",
    503: "Wait for the seconds in Retry-After, then send it again.",
    507: "Free space on the server's disk; the stream is unchanged.",
}
# An error of the engine is 422 unless it is listed here.
STATUS: Mapping[type[CosmicError], int] = {LockedError: 409, SessionError: 409}
OTHER_VERSION = "The file was written by another version; use it with that version, or make a new one."


class Problem(Exception):  # noqa: N818 - RFC 9457 calls an error response a problem
    """An error that is answered to the client.

    Args:
        status: HTTP status.
        detail: what was given and what was expected.
        hint: what to do next; by default the hint of the status.
        headers: headers of the response.
        error: error code; by default the code of the status.
    """

    def __init__(
        self, status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None, error: str = ""
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.hint = hint or HINTS.get(status, "")
        self.error = error or ERROR_CODES.get(status, "invalid")


def too_many_requests(detail: str, retry_after: int = 1) -> Problem:
    """Return a 429 that asks the client to wait for some seconds."""
    return Problem(429, detail, headers={"Retry-After": str(retry_after)})


def not_ready(detail: str, retry_after: int) -> Problem:
    """Return a 503 that asks the client to wait for some seconds."""
    return Problem(503, detail, headers={"Retry-After": str(retry_after)})


def problem_response(problem: Problem) -> Response:
    """Return a problem as a JSON response."""
    # `schemas.ProblemBody` describes this body in OpenAPI.
    detail = problem.detail if len(problem.detail) <= MAX_DETAIL else problem.detail[:MAX_DETAIL] + " ..."
    content = {"error": problem.error, "detail": detail, "hint": problem.hint}
    # ASCII: a quoted word of the client may hold code points that UTF-8 cannot encode.
    body = json.dumps(content).encode("ascii")
    return Response(body, problem.status, problem.headers, media_type="application/json")


def problem_from_error(error: CosmicError) -> Problem:
    """Return an error of the engine as a problem, without the paths of this server."""
    if isinstance(error, StorageError):
        cause = error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else "a file could not be written"
        return Problem(507, f"the server's disk refused: {reason}.")
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 422)
    return Problem(status, without_paths(str(error)), OTHER_VERSION if isinstance(error, SessionFormatError) else "")


def problem_from_validation(errors: Sequence[Any]) -> Problem:
    """Return what pydantic found as a problem, without the values that were sent."""
    if any(error.get("type") == "json_invalid" for error in errors):
        return invalid_json()
    sentences = [f"{_field(error.get('loc', ()))}: {error.get('msg', 'is not valid')}" for error in errors[:MAX_LISTED]]
    more = f"; and {len(errors) - MAX_LISTED} more" if len(errors) > MAX_LISTED else ""
    return Problem(422, "; ".join(sentences) + more + ".")


def invalid_json() -> Problem:
    """Return the problem of a body that cannot be parsed as JSON."""
    return Problem(400, "the body is not valid JSON.", "Send JSON with Content-Type: application/json.")


def without_paths(sentence: str) -> str:
    """Return a sentence with file names instead of absolute paths.

    >>> without_paths("'/srv/streams/0f/journal-1.log' is damaged; see /srv/streams.")
    "'journal-1.log' is damaged; see streams."
    """
    return re.sub(r"(?<![\w/.:])/(?:[^\s'\"/]+/)+", "", sentence).replace(" /", " ")


def _field(location: Sequence[Any]) -> str:
    """Return a field's path in the body, without the names that pydantic gives to the members of a union."""
    names = [str(part)[:60] for part in location if part not in ("body", "query", "path") and "[" not in str(part)]
    return ".".join(names) or "the body"
