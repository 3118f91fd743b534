"""Engines that encode the chunks of an extraction: the one of this process, and the protocol of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders.base import Encoder
from cosmic_tta.features.extraction.loader import DecodedChunk, ImageLoader
from cosmic_tta.features.extraction.plan import ExtractionPlan

Features = Mapping[str, NDArray[np.float32]]  # by the array's name: clip, aux


@dataclass(frozen=True, eq=False)
class EncodedChunk:
    """The features of a chunk, and the problems of images that could not be used."""

    number: int
    positions: range  # of the images in the data set
    features: Features
    problems: Mapping[int, str]  # by position
    unreadable: frozenset[int]  # positions of images whose files could not be read


class ExtractionEngine(Protocol):
    """Encodes chunks with `encode_chunk`, in any order: a chunk depends on nothing but itself."""

    waited: float  # seconds in which an encoder had no images, averaged over the encoders

    def chunks(self, plan: ExtractionPlan, numbers: Sequence[int], /) -> Iterator[EncodedChunk]:
        """Yield the chunks of these numbers as they are done."""
        ...  # pragma: no cover


class LocalEngine:
    """The engine of one process: workers decode, this process encodes."""

    def __init__(self, clip: Encoder, aux: Encoder | None, workers: int) -> None:
        self._clip, self._aux, self._workers = clip, aux, workers
        self.waited = 0.0

    def chunks(self, plan: ExtractionPlan, numbers: Sequence[int]) -> Iterator[EncodedChunk]:
        """Yield the chunks of these numbers, in that order."""
        with ImageLoader(plan.items, plan.pipeline, plan.chunk_size, self._workers) as loader:
            for chunk in loader.chunks(numbers):
                yield encode_chunk(chunk, self._clip, self._aux, plan.batch)
                self.waited = loader.waited


def encode_chunk(chunk: DecodedChunk, clip: Encoder, aux: Encoder | None, batch: int) -> EncodedChunk:
    """Encode a chunk's images in full batches; blank rows fill the last one.

    Batches of one size make the features independent of where an earlier run was stopped.
    """
    size, views = chunk.clip.shape[:2]
    rows = chunk.clip.reshape(size * views, *chunk.clip.shape[2:])
    count = len(chunk.positions)
    features = {"clip": _encode_batches(clip, rows, batch, count * views).reshape(-1, views, clip.dim)}
    _check_finite(clip, features["clip"], chunk)
    if aux is not None and chunk.aux is not None:
        features["aux"] = _encode_batches(aux, chunk.aux, min(batch, size), count)
        _check_finite(aux, features["aux"], chunk)
    return EncodedChunk(chunk.number, chunk.positions, features, chunk.problems, chunk.unreadable)


def _encode_batches(encoder: Encoder, rows: NDArray[np.uint8], batch: int, wanted: int) -> NDArray[np.float32]:
    blank = -len(rows) % batch
    if blank:
        rows = np.concatenate([rows, np.zeros((blank, *rows.shape[1:]), np.uint8)])
    encoded = [encoder.encode(rows[start : start + batch]) for start in range(0, wanted, batch)]
    return np.concatenate(encoded)[:wanted]


def _check_finite(encoder: Encoder, features: NDArray[np.float32], chunk: DecodedChunk) -> None:
    for position, row in zip(chunk.positions, features, strict=True):
        if position not in chunk.problems and not np.isfinite(row).all():
            raise EncoderError(f"{encoder.name!r} gave NaN or infinity for image {position}; try --dtype float32.")
