"""Decoding in worker processes, which are killed when they misbehave."""

from __future__ import annotations

import asyncio
import io
import sys
import time

import numpy as np
import pytest

from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.service.decode_pool import DecodePool
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.settings import ServiceSettings
from tests.support.tiny import image

pytestmark = pytest.mark.pathless

PIPELINE = ImagePipeline(RandomViews(2, 0), Preprocessing((16, 16), 16), Preprocessing((8, 8), 8))


def png(number: int = 0) -> bytes:
    file = io.BytesIO()
    image(number).save(file, "PNG")
    return file.getvalue()


def test_a_worker_decodes_an_image_as_this_process_does() -> None:
    async def use() -> None:
        decoders = DecodePool(ServiceSettings(decode_workers=1))
        one = await decoders.decode(png(), PIPELINE, "it")
        here = image(0)
        assert one.clip is not None
        assert one.clip.shape == (2, 16, 16, 3)
        assert np.array_equal(one.clip[0], PIPELINE.clip.pixels(here))
        assert PIPELINE.aux is not None
        assert np.array_equal(one.aux, PIPELINE.aux.pixels(here))  # type: ignore[arg-type]
        many = await asyncio.gather(*(decoders.decode(png(n), PIPELINE, "it") for n in range(8)))
        assert len(many) == 8
        await decoders.close()

    asyncio.run(use())


READY_FRAME = (
    "import sys, json, struct; h = b'{}'; o = sys.stdout.buffer; o.write(struct.pack('<II', 2, 0) + h); o.flush();"
)
BAD_WORKERS = {
    "hangs": "import time; time.sleep(60)",
    "ends": "sys.exit(3)",
    "is killed": "import os; os.kill(os.getpid(), 11)",
    "talks nonsense": "o.write(b'\\xff' * 100); o.flush(); sys.stdin.read()",
}


@pytest.mark.parametrize("code", BAD_WORKERS.values(), ids=BAD_WORKERS)
def test_a_worker_that_misbehaves_is_killed_and_replaced(code: str) -> None:
    async def use() -> None:
        killed: list[str] = []
        decoders = DecodePool(
            ServiceSettings(decode_workers=1, decode_seconds=0.5),
            (sys.executable, "-c", READY_FRAME + code),
            lambda: killed.append(code),
        )
        start = time.monotonic()
        for number in (1, 2):
            with pytest.raises(Problem) as refused:
                await decoders.decode(png(), PIPELINE, "it")
            assert refused.value.status == 422
            assert len(killed) == number
        assert time.monotonic() - start < 20
        await decoders.close()

    asyncio.run(use())


def test_sizes_are_refused_before_a_process_is_asked() -> None:
    async def use() -> None:
        decoders = DecodePool(ServiceSettings(max_image_bytes=10), ("/no/such/program",))
        for data, status in ((b"", 422), (b"x" * 11, 413)):
            with pytest.raises(Problem) as refused:
                await decoders.decode(data, PIPELINE, "it")
            assert refused.value.status == status
        await decoders.close()

    asyncio.run(use())
