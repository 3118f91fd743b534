"""What a client is told when something cannot be done: one form for everything, in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cosmic_tta.errors import CosmicError, LockedError, SessionDamaged, SessionError, StorageError

CUT = 600  # characters of a sentence; a client's own words may be long
KINDS: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unknown_type",
    422: "refused",
    429: "busy",
    500: "broken",
    503: "not_ready",
    507: "disk",
}
HINTS: Mapping[int, str] = {
    400: "Check the form of the request; /openapi.json describes every route.",
    401: "Send the token: Authorization: Bearer TOKEN.",
    403: "Ask whoever runs this server.",
    404: "GET /v1/streams lists the streams; /openapi.json describes every route.",
    405: "See the Allow header for what this address takes.",
    406: "Ask for application/json.",
    408: "Send the body faster, or in smaller requests.",
    409: "Look at the stream first: GET /v1/streams/NAME.",
    413: "Send fewer or smaller pictures.",
    415: "Send application/json, multipart/form-data or a picture.",
    422: "Correct the request and send it again; nothing was learned from it.",
    429: "Wait as long as Retry-After says, then send it again; nothing was learned from it.",
    500: "Nothing is known to be lost; the server's log tells more.",
    503: "Wait as long as Retry-After says, then send it again.",
    507: "Make room on the server's disk; the stream is as it was before.",
}


class Refused(Exception):  # noqa: N818 - it is an answer, told as an error
    """A request that is answered with an error."""

    def __init__(
        self, status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None, error: str = ""
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.headers = status, detail, hint, dict(headers or {})
        self.error = error or KINDS.get(status, "refused")


def busy(detail: str, seconds: int = 1) -> Refused:
    """Return the answer to one request too many."""
    return Refused(429, detail, headers={"Retry-After": str(seconds)})


def told(refused: Refused) -> Response:
    """Return a refusal as a response."""
    content = {
        "error": refused.error,
        "detail": _short(refused.detail),
        "hint": refused.hint or HINTS.get(refused.status, ""),
    }
    # ASCII: a client's own words may hold code points that UTF-8 cannot.
    body = json.dumps(content).encode("ascii")
    return Response(body, refused.status, refused.headers, media_type="application/json")


# What is wrong with a request is 422; what is not the client's doing, or not now, is told apart.
STATUS: Mapping[type[CosmicError], int] = {LockedError: 409, SessionDamaged: 409, SessionError: 409}


def of_cosmic(error: CosmicError) -> Refused:
    """Return what one of our own errors is to a client; where files lie here is not told."""
    if isinstance(error, StorageError):
        cause = error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else "it could not be written"
        return Refused(507, f"the server's disk refused: {reason}.")
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 422)
    return Refused(status, placeless(str(error)))


def placeless(sentence: str) -> str:
    """Return a sentence without the folders that files lie in.

    >>> placeless("'/srv/streams/0f/journal-1.log' is damaged; see /srv/streams.")
    "'journal-1.log' is damaged; see streams."
    """
    return re.sub(r"(?<![\w/.:])/(?:[^\s'\"/]+/)+", "", sentence).replace(" /", " ")


def of_validation(error: RequestValidationError) -> Refused:
    """Return what is wrong with a body or a parameter."""
    return of_errors(error.errors())


def of_errors(problems: Sequence[Any]) -> Refused:
    """Return what pydantic found, without repeating what was sent."""
    if any(one.get("type") == "json_invalid" for one in problems):
        return Refused(400, "the body is no JSON.", "Send JSON with Content-Type: application/json.")
    sentences = [f"{_place(one.get('loc', ()))}: {one.get('msg', 'is not valid')}" for one in problems[:5]]
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return Refused(422, "; ".join(sentences) + more + ".")


def _place(loc: Sequence[Any]) -> str:
    """Name a place in the body; which of several forms was tried there is pydantic's word, and left out."""
    named = [str(part)[:60] for part in loc if part not in ("body", "query", "path") and "[" not in str(part)]
    return ".".join(named) or "the body"


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= CUT else sentence[:CUT] + " ..."


async def on_http(_: Request, error: Exception) -> Response:
    """Answer what Starlette and FastAPI refuse by themselves: no such route, no such method, a malformed form."""
    assert isinstance(error, HTTPException)
    sentences = {404: "there is nothing at this address.", 405: "this address does not take this method."}
    detail = sentences.get(error.status_code, str(error.detail))
    return told(Refused(error.status_code, detail, headers=error.headers))


async def on_refused(_: Request, error: Exception) -> Response:
    """Answer what our own code refuses."""
    assert isinstance(error, Refused)
    return told(error)


async def on_cosmic(_: Request, error: Exception) -> Response:
    """Answer an error of the engine."""
    assert isinstance(error, CosmicError)
    return told(of_cosmic(error))


async def on_validation(_: Request, error: Exception) -> Response:
    """Answer a body or parameter that does not fit its description."""
    assert isinstance(error, RequestValidationError)
    return told(of_validation(error))
