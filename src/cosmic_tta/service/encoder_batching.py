"""Encoders are loaded once and shared by all streams; images of different streams are encoded in one batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.errors import InputError
from cosmic_tta.encoders import ClipEncoder, Encoder, make_clip, make_encoder
from cosmic_tta.features.class_texts import text_features
from cosmic_tta.service.settings import ServiceSettings

Rows = NDArray[np.float32]
Pixels = NDArray[np.uint8]
EncoderLoader = Callable[[str, str, int | None], Encoder]  # name, kind ("clip" or "image"), threads
SizeObserver = Callable[[int], None]


@dataclass(eq=False)
class _PendingImages:
    """Images that wait for a batch, and the future of their features."""

    pixels: Pixels  # [n, height, width, 3]
    rows: asyncio.Future[Rows] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class EncoderBatcher:
    """One encoder and its threads. Images that arrive within a few milliseconds are encoded together.

    A batch starts when it is full, or when its first image has waited for `wait_ms`. The next batch fills while one
    is encoded, so under load no image waits for the timer.

    Args:
        encoder: the encoder.
        batch_size: images per batch.
        wait_ms: milliseconds that the first image of a batch waits for others.
        on_batch: is called with the size of each batch.
    """

    def __init__(
        self, encoder: Encoder, batch_size: int, wait_ms: float, on_batch: SizeObserver = lambda size: None
    ) -> None:
        self.encoder, self._batch_size, self._wait_seconds = encoder, batch_size, wait_ms / 1000
        self._on_batch = on_batch
        at_once = getattr(encoder, "at_once", 1)  # an encoder with replicas takes several batches at once
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="encode")
        self._free_threads = asyncio.Semaphore(at_once)
        self._batches: set[asyncio.Task[None]] = set()
        self._pending: deque[_PendingImages] = deque()
        self._arrived = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def encode(self, pixels: Pixels) -> Rows:
        """Encode images [n, height, width, 3] as unit rows [n, D]."""
        pending = _PendingImages(pixels)
        self._pending.append(pending)
        self._arrived.set()
        return await pending.rows

    async def encode_classes(self, texts: Sequence[Sequence[str]]) -> Array:
        """Encode the sentences of each class as one unit row, between two batches of images."""
        encoder = self.encoder
        if not isinstance(encoder, ClipEncoder):
            raise InputError(f"{encoder.name} has no text tower, so it cannot encode class names.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, text_features, encoder, texts)

    async def close(self) -> None:
        """Stop. No request may be waiting."""
        self._task.cancel()
        self._threads.shutdown(wait=True)

    async def _run(self) -> None:
        while True:
            await self._free_threads.acquire()
            await self._arrived.wait()
            if self._count() < self._batch_size and self._wait_seconds:
                await asyncio.sleep(self._wait_seconds)
            batch = self._take_batch()
            if not batch:
                self._free_threads.release()
                continue
            task = asyncio.get_running_loop().create_task(self._encode_batch(batch))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _encode_batch(self, batch: Sequence[_PendingImages]) -> None:
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._threads, self._encode, [one.pixels for one in batch])
        except Exception as error:  # any error of the encoder's library goes to the requests that wait
            for one in batch:
                if not one.rows.done():
                    one.rows.set_exception(error)
            return
        finally:
            self._free_threads.release()
        for one, rows in zip(batch, results, strict=True):
            if not one.rows.done():
                one.rows.set_result(rows)

    def _count(self) -> int:
        return sum(len(one.pixels) for one in self._pending)

    def _take_batch(self) -> list[_PendingImages]:
        batch: list[_PendingImages] = []
        size = 0
        while self._pending and (not batch or size + len(self._pending[0].pixels) <= self._batch_size):
            batch.append(self._pending.popleft())
            size += len(batch[-1].pixels)
        if not self._pending:
            self._arrived.clear()
        return batch

    def _encode(self, blocks: Sequence[Pixels]) -> list[Rows]:
        pixels = np.concatenate(blocks)
        self._on_batch(len(pixels))
        # One image with many views may exceed a batch.
        starts = range(0, len(pixels), self._batch_size)
        rows = np.concatenate([self.encoder.encode(pixels[start : start + self._batch_size]) for start in starts])
        return np.split(rows, np.cumsum([len(block) for block in blocks])[:-1])


class EncoderPool:
    """The encoders that the operator allowed. Each is loaded when a stream first needs it.

    Args:
        settings: names of the encoders, batch size and threads.
        load: loads an encoder; by default into this process.
        on_batch: is called with the size of each batch.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        load: EncoderLoader | None = None,
        on_batch: SizeObserver = lambda size: None,
    ) -> None:
        self._settings, self._load, self._on_batch = settings, load or load_encoder, on_batch
        self._loaded: dict[tuple[str, str], EncoderBatcher] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def clip(self, name: str) -> EncoderBatcher:
        """Return an encoder of images and texts."""
        return await self._get(name, "clip")

    async def image(self, name: str) -> EncoderBatcher:
        """Return an encoder of images."""
        return await self._get(name, "image")

    async def close(self) -> None:
        """Stop all encoders."""
        for batcher in self._loaded.values():
            await batcher.close()

    async def _get(self, name: str, kind: str) -> EncoderBatcher:
        settings = self._settings
        if name not in settings.encoders:
            raise InputError(
                f"this server has no encoder {name[:80]!r}; it has {', '.join(settings.encoders)}. "
                "The operator can add one: cosmic serve --encoder NAME."
            )
        key = (name, kind)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._loaded:
                encoder = await asyncio.to_thread(self._load, name, kind, settings.encoder_threads)
                self._loaded[key] = EncoderBatcher(encoder, settings.batch_size, settings.batch_wait_ms, self._on_batch)
        return self._loaded[key]


def load_encoder(name: str, kind: str, threads: int | None) -> Encoder:
    """Load an encoder into this process."""
    return make_clip(name, threads=threads) if kind == "clip" else make_encoder(name, kind="image", threads=threads)
