"""Encoders, loaded once and shared by all streams; pictures of different streams are encoded together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.encoders import ClipEncoder, Encoder, make_clip, make_encoder
from cosmic_tta.errors import InputError
from cosmic_tta.loading import Prepared
from cosmic_tta.ops import Array
from cosmic_tta.prompts import text_features
from cosmic_tta.service.settings import Settings

Rows = NDArray[np.float32]
Pixels = NDArray[np.uint8]
Load = Callable[[str, str, int | None], Encoder]  # name, kind, threads


@dataclass(eq=False)
class _Waiting:
    pixels: Pixels  # [n, height, width, 3]
    rows: asyncio.Future[Rows] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher:
    """One encoder and its thread: who comes within a few milliseconds goes in one batch.

    A batch leaves when it is full, or when its first picture has waited `wait_ms`. While one is under way the next
    fills up, so that under load nobody waits for the clock.
    """

    def __init__(self, encoder: Encoder, batch: int, wait_ms: float) -> None:
        self.encoder, self._batch, self._wait = encoder, batch, wait_ms / 1000
        at_once = getattr(encoder, "at_once", 1)  # batches: more than one for an encoder that others compute for
        self._thread = ThreadPoolExecutor(at_once, thread_name_prefix="encode")
        self._free = asyncio.Semaphore(at_once)
        self._sent: set[asyncio.Task[None]] = set()
        self._queue: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self.on_batch: Callable[[int], None] = lambda size: None

    async def encode(self, pixels: Pixels) -> Rows:
        """Encode [n, height, width, 3] as unit rows [n, D]."""
        waiting = _Waiting(pixels)
        self._queue.append(waiting)
        self._arrived.set()
        return await waiting.rows

    async def texts(self, texts: Sequence[Sequence[str]]) -> Array:
        """Encode each class's sentences as one unit row; between two batches of pictures."""
        encoder = self.encoder
        if not isinstance(encoder, ClipEncoder):
            raise InputError(f"{encoder.name} has no text tower, so it cannot name classes.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, text_features, encoder, texts)

    async def close(self) -> None:
        """Stop; nobody is waiting any more."""
        self._task.cancel()
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        while True:
            await self._free.acquire()
            await self._arrived.wait()
            if self._count() < self._batch and self._wait:
                await asyncio.sleep(self._wait)
            taken = self._take()
            if not taken:
                self._free.release()
                continue
            sent = asyncio.get_running_loop().create_task(self._send(taken))
            self._sent.add(sent)
            sent.add_done_callback(self._sent.discard)

    async def _send(self, taken: Sequence[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            rows = await loop.run_in_executor(self._thread, self._encode, [one.pixels for one in taken])
        except Exception as error:  # whatever the encoder's library raises is told to those who waited
            for one in taken:
                if not one.rows.done():
                    one.rows.set_exception(error)
            return
        finally:
            self._free.release()
        for one, part in zip(taken, rows, strict=True):
            if not one.rows.done():
                one.rows.set_result(part)

    def _count(self) -> int:
        return sum(len(one.pixels) for one in self._queue)

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        size = 0
        while self._queue and (not taken or size + len(self._queue[0].pixels) <= self._batch):
            taken.append(self._queue.popleft())
            size += len(taken[-1].pixels)
        if not self._queue:
            self._arrived.clear()
        return taken

    def _encode(self, blocks: Sequence[Pixels]) -> list[Rows]:
        pixels = np.concatenate(blocks)
        self.on_batch(len(pixels))
        # One picture of many views may be more than a batch.
        starts = range(0, len(pixels), self._batch)
        rows = np.concatenate([self.encoder.encode(pixels[start : start + self._batch]) for start in starts])
        return np.split(rows, np.cumsum([len(block) for block in blocks])[:-1])


class Encoders:
    """The encoders that the server's owner allowed, each loaded when a stream first needs it."""

    def __init__(self, settings: Settings, load: Load | None = None) -> None:
        self.settings, self._load = settings, load or load_here
        self._loaded: dict[tuple[str, str], Batcher] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self.on_batch: Callable[[int], None] = lambda size: None

    async def clip(self, name: str) -> Batcher:
        """Return an encoder of pictures and sentences."""
        return await self._get(name, "clip")

    async def image(self, name: str) -> Batcher:
        """Return an encoder of pictures."""
        return await self._get(name, "image")

    def add(self, name: str, kind: str, encoder: Encoder) -> None:
        """Take an encoder that is there already."""
        batcher = Batcher(encoder, self.settings.batch, self.settings.wait_ms)
        batcher.on_batch = lambda size: self.on_batch(size)
        self._loaded[name, kind] = batcher

    async def close(self) -> None:
        """Stop all of them."""
        for batcher in self._loaded.values():
            await batcher.close()

    async def _get(self, name: str, kind: str) -> Batcher:
        if name not in self.settings.encoders:
            known = ", ".join(self.settings.encoders)
            raise InputError(
                f"this server has no encoder {name[:80]!r}; it has: {known}. Whoever runs it adds one by --encoder."
            )
        key = (name, kind)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._loaded:
                encoder = await asyncio.to_thread(self._load, name, kind, self.settings.threads)
                self.add(name, kind, encoder)
        return self._loaded[key]


def load_here(name: str, kind: str, threads: int | None) -> Encoder:
    """Load an encoder into this process."""
    return make_clip(name, threads=threads) if kind == "clip" else make_encoder(name, kind="image", threads=threads)


async def encoded(prepared: Prepared, clip: Batcher, aux: Batcher | None) -> tuple[Rows, Rows | None]:
    """Encode a decoded picture: its views [V, D], and for the auxiliary encoder [E]."""
    assert prepared.clip is not None
    if aux is None or prepared.aux is None:
        return await clip.encode(prepared.clip), None
    views, plain = await asyncio.gather(clip.encode(prepared.clip), aux.encode(prepared.aux[None]))
    return views, plain[0]
