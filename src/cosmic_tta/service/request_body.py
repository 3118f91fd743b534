"""The body of a predict request: multipart files, JSON, or one image as raw bytes. `middleware.py` limits its size."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass, field

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from cosmic_tta.core.types import Sample
from cosmic_tta.service.errors import Problem, invalid_json, problem_from_validation
from cosmic_tta.service.schemas import PredictBody
from cosmic_tta.service.settings import ServiceSettings

THREAD_BYTES = 64 << 10  # a larger JSON body is parsed in a thread
MAX_FORM_FIELDS = 8
CURL_EXAMPLE = "Example: curl -F images=@photo.jpg."


@dataclass(frozen=True)
class PredictRequest:
    """What is to be predicted: images as bytes, URLs of images, or samples.

    Args:
        images: a name for error messages and the bytes of each image.
        urls: addresses that images are fetched from.
        samples: features that were encoded by the client.
    """

    images: list[tuple[str, bytes]] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


async def read_predict_request(request: Request, settings: ServiceSettings) -> PredictRequest:
    """Parse the body of a predict request, by its Content-Type."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json":
        body = await request.body()
        if len(body) <= THREAD_BYTES:
            return _parse_json(body, settings)
        return await asyncio.to_thread(_parse_json, body, settings)
    if content_type == "multipart/form-data":
        return await _parse_form(request, settings)
    if content_type.startswith("image/") or content_type == "application/octet-stream":
        return PredictRequest(images=[("the image", await request.body())])
    raise Problem(415, f"the Content-Type {content_type[:80] or '(none)'!r} is not supported.")


async def _parse_form(request: Request, settings: ServiceSettings) -> PredictRequest:
    images: list[tuple[str, bytes]] = []
    async with request.form(
        max_files=settings.max_images, max_fields=MAX_FORM_FIELDS, max_part_size=settings.max_body_bytes
    ) as form:
        for name, value in form.multi_items():
            if name != "images" or not isinstance(value, UploadFile):
                raise Problem(
                    422,
                    f"the form has a field {name[:80]!r}; expected files named 'images'.",
                    f"{CURL_EXAMPLE} Put learn, top, why and source into the query.",
                )
            images.append((f"image {len(images)}", await value.read()))
    if not images:
        raise Problem(422, "the form has no file named 'images'.", CURL_EXAMPLE)
    return PredictRequest(images=images)


def _parse_json(data: bytes, settings: ServiceSettings) -> PredictRequest:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid_json() from error
    try:
        body = PredictBody.model_validate(parsed)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise problem_from_validation(errors) from error
    given = [items for items in (body.images, body.features, body.urls) if items is not None]
    if len(given) != 1:
        raise Problem(422, f"expected exactly one of images, features and urls; given {len(given)}.")
    if len(given[0]) > settings.max_images:
        raise Problem(422, f"a request takes at most {settings.max_images} images; given {len(given[0])}.")
    if body.features is not None:
        return PredictRequest(samples=[_sample(one.clip, one.aux, index) for index, one in enumerate(body.features)])
    images = [(f"image {index}", _decode_base64(text, index)) for index, text in enumerate(body.images or [])]
    return PredictRequest(images=images, urls=body.urls or [])


def _sample(clip: list[float] | list[list[float]], aux: list[float] | None, index: int) -> Sample:
    rows = clip if isinstance(clip[0], list) else [clip]
    try:
        return Sample(rows, aux)  # type: ignore[arg-type]  # Sample converts lists to arrays and checks them
    except ValueError as error:
        raise Problem(422, f"features {index}: {error}") from error


def _decode_base64(text: str, index: int) -> bytes:
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(422, f"image {index}: not valid base64 ({error}).", "Example: base64 -w0 photo.jpg.") from error
