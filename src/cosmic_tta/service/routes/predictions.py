"""Routes that predict images and record labels."""

from __future__ import annotations

import asyncio
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request

from cosmic_tta.service.request_body import read_predict_request
from cosmic_tta.service.routes.dependencies import Flag, Host, StreamPath, WholeNumber
from cosmic_tta.service.routes.responses import BINARY, STREAM_PROBLEMS, change_stream
from cosmic_tta.service.schemas import (
    MAX_CLASSES,
    Acknowledgement,
    ClassScoreBody,
    LabelSteps,
    PredictionBody,
    PredictResponse,
    Source,
)
from cosmic_tta.service.stream_queue import PredictionBatch

router = APIRouter(prefix="/v1/streams/{stream}", tags=["predictions"], responses=STREAM_PROBLEMS)
_REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/PredictBody"}},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["images"],
                "properties": {
                    "images": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "string", "format": "binary"},
                        "description": "Files in JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF.",
                    }
                },
            }
        },
        "image/jpeg": BINARY,
        "image/png": BINARY,
        "application/octet-stream": BINARY,
    },
}


@router.post("/predict", summary="Predict images, and learn from them", openapi_extra={"requestBody": _REQUEST_BODY})
async def predict(
    request: Request,
    host: Host,
    stream: StreamPath,
    learn: Annotated[Flag, Query(description="Whether the stream learns from the images.")] = True,
    top: Annotated[
        WholeNumber | None, Query(ge=1, le=MAX_CLASSES, description="Classes per image; all by default.")
    ] = None,
    why: Annotated[Flag, Query(description="Whether to explain each prediction.")] = False,
    source: Annotated[
        Source | None, Query(description="Where the images come from; a stream can forget a source.")
    ] = None,
) -> PredictResponse:
    """Return the classes of each image, most probable first. A learned step is on disk before its response."""
    queue = host.queue(stream)
    body = await read_predict_request(request, host.settings)
    batch = await host.predict(queue, body, learn=learn, source=source)
    if why:  # explanations are computed when they are asked for, which takes time
        return await asyncio.to_thread(_predict_response, stream, batch, top, True)
    return _predict_response(stream, batch, top, False)


def _predict_response(stream: str, batch: PredictionBatch, top: int | None, why: bool) -> PredictResponse:
    """Return predictions with their most probable classes and, with `why`, their explanations."""
    predictions = []
    for result in batch.results:
        scores = result.prediction.scores
        order = np.argsort(-scores, kind="stable")[:top]
        predictions.append(
            PredictionBody(
                step=result.number if result.number >= 0 else None,
                learned=result.learned,
                reason=result.reason,
                answers=[ClassScoreBody(label=batch.class_names[k], score=float(scores[k])) for k in order],
                unknown=result.prediction.unknown,
                why=result.prediction.why.plain() if why else None,
            )
        )
    return PredictResponse(stream=stream, predictions=predictions)


@router.post("/labels", summary="Record the labels of earlier steps")
async def label_steps(host: Host, stream: StreamPath, body: LabelSteps) -> Acknowledgement:
    """Record labels for the monitor. No method sees a label. All labels are recorded, or none."""
    pairs = [(one.step, one.label) for one in body.labels]
    return await change_stream(host, stream, "labelled", lambda session: session.labels(pairs))
