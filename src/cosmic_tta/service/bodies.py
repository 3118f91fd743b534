"""A predict request's body, as pictures or features: multipart, JSON, or one picture as it is."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass, field

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from cosmic_tta.core import Sample
from cosmic_tta.service.refusals import Refused, of_errors
from cosmic_tta.service.schemas import PredictBody
from cosmic_tta.service.settings import Settings

LARGE = 64 << 10  # a body that is parsed in a thread


@dataclass(frozen=True)
class Asked:
    """What is to be named: pictures with what to call them, addresses of such, or samples."""

    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


async def read(request: Request, settings: Settings) -> Asked:
    """Take a body apart, or refuse it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        if len(body) <= LARGE:
            return _json(body, settings)
        return await asyncio.to_thread(_json, body, settings)
    if kind == "multipart/form-data":
        return await _form(request, settings)
    if kind.startswith("image/") or kind == "application/octet-stream":
        return Asked(pictures=[("the picture", await request.body())])
    raise Refused(415, f"a body of the type {kind[:80] or '(none given)'!r} is not understood.")


async def _form(request: Request, settings: Settings) -> Asked:
    pictures: list[tuple[str, bytes]] = []
    async with request.form(max_files=settings.pictures, max_fields=8, max_part_size=settings.body_bytes) as form:
        for name, value in form.multi_items():
            if name != "pictures" or not isinstance(value, UploadFile):
                raise Refused(
                    422,
                    f"the form has a field {name[:80]!r}; expected files named 'pictures'.",
                    "curl -F pictures=@photo.jpg; learn, top, why and source go into the address.",
                )
            pictures.append((f"picture {len(pictures)}", await value.read()))
    if not pictures:
        raise Refused(422, "the form holds no file named 'pictures'.", "curl -F pictures=@photo.jpg")
    return Asked(pictures=pictures)


def _json(body: bytes, settings: Settings) -> Asked:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is no JSON.", "Send JSON with Content-Type: application/json.") from error
    try:
        wanted = PredictBody.model_validate(told)
    except ValidationError as error:
        raise of_errors(error.errors(include_url=False, include_context=False, include_input=False)) from error
    given = [one for one in (wanted.pictures, wanted.features, wanted.urls) if one is not None]
    if len(given) != 1:
        raise Refused(422, f"give one of pictures, features, urls; given {len(given)} of them.")
    if len(given[0]) > settings.pictures:
        raise Refused(422, f"one request takes at most {settings.pictures} pictures; given {len(given[0])}.")
    if wanted.features is not None:
        return Asked(samples=[_sample(one.clip, one.aux, place) for place, one in enumerate(wanted.features)])
    pictures = [(f"picture {place}", _bytes(text, place)) for place, text in enumerate(wanted.pictures or [])]
    return Asked(pictures=pictures, urls=wanted.urls or [])


def _sample(clip: list[float] | list[list[float]], aux: list[float] | None, place: int) -> Sample:
    rows = clip if isinstance(clip[0], list) else [clip]
    try:
        return Sample(rows, aux)  # type: ignore[arg-type]  # it is made an array, and checked, there
    except ValueError as error:
        raise Refused(422, f"features {place}: {error}") from error


def _bytes(text: str, place: int) -> bytes:
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(422, f"picture {place}: is not base64 ({error}).", "base64 -w0 photo.jpg") from error
