"""From images to samples: fetch URLs, decode in worker processes, encode in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.core.types import Sample
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.service.decode_pool import DecodePool
from cosmic_tta.service.encoder_batching import EncoderBatcher, EncoderPool
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.request_body import PredictRequest
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.service.url_fetch import UrlFetcher

Pixels = NDArray[np.uint8]


class IngestedImages(NamedTuple):
    """Samples and, where they came as images, the pixels [height, width, 3] that the encoder saw."""

    samples: Sequence[Sample]
    pixels: Sequence[Pixels]


class ImageIngest:
    """Makes samples of what a predict request holds, with the encoders of its stream.

    Args:
        settings: limits and timeouts.
        encoders: the encoders of this server.
        metrics: counts the killed decoders.
    """

    def __init__(self, settings: ServiceSettings, encoders: EncoderPool, metrics: Metrics) -> None:
        self._settings, self._encoders = settings, encoders
        self._decoders = DecodePool(settings, on_kill=metrics.decoders_killed.inc)
        self._fetcher = UrlFetcher(settings)

    async def close(self) -> None:
        """End the worker processes."""
        await self._decoders.close()

    async def ingest(
        self, request: PredictRequest, metadata: Mapping[str, Any], encoder_problem: str
    ) -> IngestedImages:
        """Return the samples of a request. One image that fails fails the whole request.

        Args:
            request: images, URLs or samples.
            metadata: encoders, views and seed of the stream.
            encoder_problem: why the stream's encoders cannot be used; empty if they can.

        Raises:
            Problem: the stream takes no images, or an image cannot be fetched, decoded or encoded.
        """
        if request.samples:
            return IngestedImages(request.samples, [])
        if metadata.get("encoder") is None or encoder_problem:
            detail = encoder_problem or "this stream has no encoder: it takes features, not images."
            hint = 'Send features: {"features": [{"clip": [...]}]}.'
            raise Problem(409 if encoder_problem else 422, detail, hint)
        clip = await self._encoders.clip(metadata["encoder"])
        aux = None if metadata.get("aux") is None else await self._encoders.image(metadata["aux"])
        fetched = [(f"image {index}", await self._fetch(url)) for index, url in enumerate(request.urls)]
        pipeline = ImagePipeline(
            RandomViews(metadata.get("views", 1), metadata.get("seed", 0)),
            clip.encoder.preprocessing,
            None if aux is None else aux.encoder.preprocessing,
            self._settings.max_pixels,
        )
        # All images are awaited, even after one has failed, so that no task outlives the request.
        results = await asyncio.gather(
            *(self._encode(name, data, pipeline, clip, aux) for name, data in [*request.images, *fetched]),
            return_exceptions=True,
        )
        encoded: list[tuple[Sample, Pixels]] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            encoded.append(result)
        return IngestedImages([sample for sample, _ in encoded], [pixels for _, pixels in encoded])

    async def check_encoders(self, metadata: Mapping[str, Any]) -> str:
        """Load a stream's encoders; return why it cannot take images, or an empty string."""
        for key, load in (("encoder", self._encoders.clip), ("aux", self._encoders.image)):
            name = metadata.get(key)
            if name is None:
                continue
            try:
                batcher = await load(name)
            except CosmicError as error:
                return str(error)
            expected, found = metadata.get(f"{key}_fingerprint"), batcher.encoder.fingerprint
            if found != expected:
                return (
                    f"the weights of {name} differ from those that this stream was created with: "
                    f"fingerprint {expected!s:.16} expected, {found:.16} found."
                )
        return ""

    async def _fetch(self, url: str) -> bytes:
        try:
            # The fetcher has its own timeout, which does not cover the name lookup.
            return await asyncio.wait_for(asyncio.to_thread(self._fetcher.fetch, url), 2 * self._settings.fetch_seconds)
        except TimeoutError:
            raise Problem(422, "fetching the image took too long.") from None

    async def _encode(
        self, name: str, data: bytes, pipeline: ImagePipeline, clip: EncoderBatcher, aux: EncoderBatcher | None
    ) -> tuple[Sample, Pixels]:
        decoded = await self._decoders.decode(data, pipeline, name)
        assert decoded.clip is not None
        if aux is None or decoded.aux is None:
            return Sample(await clip.encode(decoded.clip), None), decoded.clip[0]
        views, aux_rows = await asyncio.gather(clip.encode(decoded.clip), aux.encode(decoded.aux[None]))
        return Sample(views, aux_rows[0]), decoded.clip[0]
