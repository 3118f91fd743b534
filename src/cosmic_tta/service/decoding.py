"""Pictures decoded by worker processes that can be killed: a picture that hangs a decoder takes no one else's time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.loading import Prepared, Recipe
from cosmic_tta.service.decode_worker import LENGTHS, frame
from cosmic_tta.service.refusals import Refused, busy
from cosmic_tta.service.settings import Settings

PROGRAM = (sys.executable, "-m", "cosmic_tta.service.decode_worker")
PICTURES_A_LIFE = 2000  # then a process is replaced, should a decoder leak
START_SECONDS = 60.0
LARGEST = 256 << 20  # bytes of one answer


class Decoders:
    """A few processes; each has one picture at a time, and is killed where it takes too long."""

    def __init__(self, settings: Settings, program: Sequence[str] = PROGRAM) -> None:
        self.settings, self._program = settings, program
        self._free: asyncio.Queue[_Worker | None] = asyncio.Queue()
        self._all: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self.killed = 0
        for _ in range(settings.workers):
            self._free.put_nowait(None)  # started when first needed

    async def decode(self, data: bytes, recipe: Recipe, name: str) -> Prepared:
        """Return a picture's pixels, or refuse it with what is wrong."""
        if not data:
            raise Refused(422, f"{name}: is empty (0 bytes).")
        if len(data) > self.settings.picture_bytes:
            most = self.settings.picture_bytes / (1 << 20)
            raise Refused(413, f"{name}: has {len(data):,} bytes; a picture may have at most {most:g} MB.")
        seconds = self.settings.decode_seconds
        key = blake2b(data, digest_size=16).hexdigest()
        head = {**_recipe(recipe), "name": name, "key": key, "seconds": seconds}
        try:
            worker = await asyncio.wait_for(self._free.get(), self.settings.patience)
        except TimeoutError:
            raise busy("all processes that decode pictures are busy.", 2) from None
        keep: _Worker | None = None
        try:
            worker = worker or await self._start()
            answer, body = await asyncio.wait_for(worker.ask(frame(head, data)), seconds)
            keep = worker if worker.pictures < PICTURES_A_LIFE else None
        except TimeoutError:
            self.killed += 1
            raise Refused(
                422, f"{name}: could not be decoded within {seconds:g} seconds.", "Send it smaller or as a plain JPEG."
            ) from None
        except (OSError, EOFError, ValueError, asyncio.IncompleteReadError) as error:
            self.killed += 1
            raise Refused(422, f"{name}: ended the process that decoded it ({type(error).__name__}).") from error
        finally:
            if keep is None and worker is not None:
                self._end(worker)
            self._free.put_nowait(keep)
        if "problem" in answer:
            raise Refused(422, str(answer["problem"]))
        return _pixels(answer, body, recipe)

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        for worker in list(self._all):
            self._end(worker)
        await asyncio.gather(*self._ending)

    async def _start(self) -> _Worker:
        if self._closed:
            raise Refused(503, "the server is closing.", headers={"Retry-After": "5"})
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = await asyncio.create_subprocess_exec(
            *self._program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
        )
        worker = _Worker(process)
        self._all.add(worker)
        try:
            await asyncio.wait_for(worker.heard(), START_SECONDS)  # a slow start is not the picture's fault
        except BaseException:
            self._end(worker)
            raise
        return worker

    def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.pictures = process, 0

    async def ask(self, asked: bytes) -> tuple[dict[str, Any], bytes]:
        assert self.process.stdin is not None
        self.process.stdin.write(asked)
        await self.process.stdin.drain()
        self.pictures += 1
        return await self.heard()

    async def heard(self) -> tuple[dict[str, Any], bytes]:
        assert self.process.stdout is not None
        told, size = LENGTHS.unpack(await self.process.stdout.readexactly(LENGTHS.size))
        if told > LARGEST or size > LARGEST:
            raise ValueError("an answer of a wrong size")
        head = json.loads(await self.process.stdout.readexactly(told))
        return head, await self.process.stdout.readexactly(size)

    async def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        await self.process.wait()


def _recipe(recipe: Recipe) -> dict[str, Any]:
    """Describe what becomes of a picture, as JSON can hold it."""
    aux = None if recipe.aux is None else recipe.aux.described()
    views = {"count": recipe.views.count, "seed": recipe.views.seed}
    return {"views": views, "clip": recipe.clip.described(), "aux": aux, "max_pixels": recipe.max_pixels}


def _pixels(head: dict[str, Any], body: bytes, recipe: Recipe) -> Prepared:
    shape = tuple(head["clip"])
    size = int(np.prod(shape))
    clip: NDArray[np.uint8] = np.frombuffer(body[:size], np.uint8).reshape(shape)
    if recipe.aux is None:
        return Prepared(clip)
    return Prepared(clip, np.frombuffer(body[size:], np.uint8).reshape(*recipe.aux.size, 3))
