"""Images are decoded by worker processes, so that an image that hangs a decoder can be stopped by killing it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.features.extraction.loader import DecodedImage, ImagePipeline
from cosmic_tta.service.decode_worker import LENGTHS, pack_frame
from cosmic_tta.service.errors import Problem, not_ready, too_many_requests
from cosmic_tta.service.settings import MEGABYTE, ServiceSettings

WORKER_COMMAND = (sys.executable, "-m", "cosmic_tta.service.decode_worker")
MAX_IMAGES_PER_WORKER = 2000  # then a process is replaced, in case a decoder leaks memory
START_SECONDS = 60.0
MAX_FRAME_BYTES = 256 * MEGABYTE


class DecodePool:
    """A fixed number of worker processes. Each decodes one image at a time and is killed if it takes too long.

    Args:
        settings: number of workers, timeouts and limits.
        command: the command that starts a worker.
        on_kill: is called for each worker that hung or crashed.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        command: Sequence[str] = WORKER_COMMAND,
        on_kill: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._command, self._on_kill = settings, command, on_kill
        self._idle: asyncio.Queue[_Worker | None] = asyncio.Queue()
        self._workers: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        for _ in range(settings.decode_workers):
            self._idle.put_nowait(None)  # a worker starts when it is first needed

    async def decode(self, data: bytes, pipeline: ImagePipeline, name: str) -> DecodedImage:
        """Decode an image in a worker.

        Args:
            data: the bytes of the image file.
            pipeline: views and preprocessing.
            name: what error messages call the image.

        Returns:
            The pixels for each encoder.

        Raises:
            Problem: the image is empty (422), too large (413), or cannot be decoded (422), or all workers are busy
                (429).
        """
        self._check_size(data, name)
        seconds = self._settings.decode_seconds
        key = blake2b(data, digest_size=16).hexdigest()
        header = {**_described(pipeline), "name": name, "key": key, "seconds": seconds}
        try:
            worker = await asyncio.wait_for(self._idle.get(), self._settings.queue_seconds)
        except TimeoutError:
            raise too_many_requests("all processes that decode images are busy.", 2) from None
        reusable: _Worker | None = None
        try:
            worker = worker or await self._start()
            answer, body = await asyncio.wait_for(worker.ask(pack_frame(header, data)), seconds)
            reusable = worker if worker.images < MAX_IMAGES_PER_WORKER else None
        except TimeoutError:
            self._on_kill()
            raise Problem(
                422, f"{name}: not decoded within {seconds:g} seconds.", "Send a smaller image, or a plain JPEG."
            ) from None
        except (OSError, EOFError, ValueError, asyncio.IncompleteReadError) as error:
            self._on_kill()
            raise Problem(422, f"{name}: crashed the process that decoded it ({type(error).__name__}).") from error
        finally:
            if reusable is None and worker is not None:
                self._end(worker)
            self._idle.put_nowait(reusable)
        if "problem" in answer:
            raise Problem(422, str(answer["problem"]))
        return _decoded(answer, body, pipeline)

    async def close(self) -> None:
        """End all workers."""
        self._closed = True
        for worker in list(self._workers):
            self._end(worker)
        await asyncio.gather(*self._ending)

    def _check_size(self, data: bytes, name: str) -> None:
        if not data:
            raise Problem(422, f"{name}: is empty (0 bytes).")
        limit = self._settings.max_image_bytes
        if len(data) > limit:
            raise Problem(413, f"{name}: has {len(data):,} bytes; the limit is {limit / MEGABYTE:g} MB.")

    async def _start(self) -> _Worker:
        if self._closed:
            raise not_ready("the server is closing.", 5)
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        worker = _Worker(process)
        self._workers.add(worker)
        try:
            await asyncio.wait_for(worker.read_frame(), START_SECONDS)  # the start does not count as decoding time
        except BaseException:
            self._end(worker)
            raise
        return worker

    def _end(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Worker:
    """One process, and how many images it has decoded."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self.images = process, 0

    async def ask(self, frame: bytes) -> tuple[dict[str, Any], bytes]:
        """Send a frame and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(frame)
        await self._process.stdin.drain()
        self.images += 1
        return await self.read_frame()

    async def read_frame(self) -> tuple[dict[str, Any], bytes]:
        """Return the header and the body of the next frame."""
        assert self._process.stdout is not None
        header_size, body_size = LENGTHS.unpack(await self._process.stdout.readexactly(LENGTHS.size))
        if header_size > MAX_FRAME_BYTES or body_size > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {header_size} + {body_size} bytes")
        header = json.loads(await self._process.stdout.readexactly(header_size))
        return header, await self._process.stdout.readexactly(body_size)

    async def end(self) -> None:
        """Kill the process and wait for its end."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


def _described(pipeline: ImagePipeline) -> dict[str, Any]:
    """Return a pipeline as JSON values."""
    aux = None if pipeline.aux is None else pipeline.aux.to_dict()
    views = {"count": pipeline.views.count, "seed": pipeline.views.seed}
    return {"views": views, "clip": pipeline.clip.to_dict(), "aux": aux, "max_pixels": pipeline.max_pixels}


def _decoded(header: dict[str, Any], body: bytes, pipeline: ImagePipeline) -> DecodedImage:
    shape = tuple(header["clip"])
    size = int(np.prod(shape))
    clip: NDArray[np.uint8] = np.frombuffer(body[:size], np.uint8).reshape(shape)
    if pipeline.aux is None:
        return DecodedImage(clip)
    return DecodedImage(clip, np.frombuffer(body[size:], np.uint8).reshape(*pipeline.aux.size, 3))
