"""Batches of images, and encoders that are loaded once."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.encoder_batching import EncoderBatcher, EncoderPool
from cosmic_tta.service.settings import ServiceSettings
from tests.support.tiny import TinyEncoder

pytestmark = pytest.mark.pathless


def test_images_of_several_streams_are_encoded_together() -> None:
    encoder = TinyEncoder()
    pixels = np.random.default_rng(0).integers(256, size=(20, 16, 16, 3), dtype=np.uint8)

    async def use() -> list[Any]:
        batcher = EncoderBatcher(encoder, batch_size=8, wait_ms=20)
        try:
            return await asyncio.gather(*(batcher.encode(one[None]) for one in pixels), batcher.encode(pixels[:3]))
        finally:
            await batcher.close()

    found = asyncio.run(use())
    assert max(shape[0] for shape in encoder.batches) <= 8
    assert len(encoder.batches) == 3
    assert np.allclose(np.concatenate(found[:20]), encoder.encode(pixels), atol=1e-6)
    assert np.allclose(found[20], encoder.encode(pixels[:3]), atol=1e-6)


def test_an_error_of_an_encoder_goes_to_the_requests_that_wait() -> None:
    encoder = TinyEncoder()

    async def use() -> None:
        batcher = EncoderBatcher(encoder, batch_size=8, wait_ms=0)
        with pytest.raises(ValueError, match="reshape|matmul|mismatch"):
            await batcher.encode(np.zeros((1, 4, 4, 3), np.uint8))
        assert (await batcher.encode(np.ones((1, 16, 16, 3), np.uint8))).shape == (1, 8)
        await batcher.close()

    asyncio.run(use())


def test_an_encoder_is_loaded_once() -> None:
    async def use() -> None:
        encoders = EncoderPool(ServiceSettings(encoder_threads=1))
        found = await asyncio.gather(*(encoders.clip("mini:clip") for _ in range(5)))
        assert len({id(one) for one in found}) == 1
        with pytest.raises(InputError, match="--encoder"):
            await encoders.clip("onnx:/etc")
        await encoders.close()

    asyncio.run(use())
