"""An extraction on Ray Data: tasks read and cut pictures, actors encode them, the driver writes what comes out.

A row of the pipeline is a chunk, from first to last. Chunks and batches are those of the local engine, so the pack is
too, byte by byte, on processors of the same kind. A run that is stopped is gone on with by either engine.
"""

from __future__ import annotations

import logging
import math
import pickle
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import ray
import ray.data
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext, ExecutionResources

from cosmic_tta.encoders import Encoder, make_clip, make_encoder
from cosmic_tta.errors import CosmicError, EncoderError, InputError
from cosmic_tta.extract import Encoded, Work, encode_chunk
from cosmic_tta.loading import Chunk, Loader
from cosmic_tta.scale.cluster import RETRIES, cores, graphics

Row = Mapping[str, NDArray[Any]]  # a batch of one
IN_HAND = 2  # chunks of an encoder: one is encoded, the next lies ready
AHEAD = 8  # chunks an encoder whose pixels may lie in the object store
NUMBER = "number"
ADVICE = "Perhaps the memory ran out: try fewer --workers or a smaller --batch. What was encoded is kept."


@dataclass(frozen=True)
class Place:
    """What one worker takes of the cluster."""

    cores: float
    graphics: float = 0.0


class Attempts:
    """How often each thing was begun. Ray Data itself would try for ever what kills its worker each time."""

    def __init__(self) -> None:
        self._begun = Counter[tuple[str, int]]()

    def begin(self, stage: str, number: int) -> int:
        """Count one more attempt."""
        self._begun[stage, number] += 1
        return self._begun[stage, number]

    def end(self, stage: str, number: int) -> None:
        """It is done: attempts are counted anew."""
        self._begun[stage, number] = 0


@dataclass(frozen=True)
class Shared:
    """What all workers of an extraction know."""

    work: Any  # reference to a Work
    attempts: Any  # handle of the Attempts
    actors: int  # that encode

    def begin(self, stage: str, number: int) -> Work:
        """Return what is to be done, unless this chunk has cost too many workers."""
        if ray.get(self.attempts.begin.remote(stage, number)) > 1 + RETRIES:
            raise EncoderError(f"workers died again and again when chunk {number} was to be {stage}. {ADVICE}")
        return _taken(self.work)

    def load(self, encoders: tuple[str, str | None, str, str]) -> tuple[Encoder, Encoder | None]:
        """Load both encoders, unless that has cost too many workers with no success between."""
        if ray.get(self.attempts.begin.remote("loaded", 0)) > self.actors * (1 + RETRIES):
            raise EncoderError(f"workers died again and again when the encoders were to be loaded. {ADVICE}")
        loaded = _loaded(*encoders, _taken(self.work))
        ray.get(self.attempts.end.remote("loaded", 0))
        return loaded


def read(row: Row, *, shared: Shared) -> Row:
    """Read, decode and cut a chunk's pictures, in a task."""

    def chunk() -> Chunk:
        number = int(row[NUMBER][0])
        work = shared.begin("read", number)
        with Loader(work.items, work.recipe, work.size, 0) as loader:
            return next(loader.chunks([number]))

    return _packed(_outcome(chunk))


class Encoding:
    """Both encoders in an actor. Weights come from its own machine, and must be the driver's."""

    def __init__(self, encoders: tuple[str, str | None, str, str], shared: Shared) -> None:
        self._shared = shared
        self._encoders = _outcome(lambda: shared.load(encoders))
        self._ended: float | None = None

    def __call__(self, row: Row) -> Row:
        """Encode a chunk; also tell how long the encoders had nothing to do before it."""
        waited = 0.0 if self._ended is None else time.perf_counter() - self._ended
        chunk, encoders = _unpacked(row), self._encoders
        for one in (encoders, chunk):
            if isinstance(one, CosmicError):
                return _packed(one)

        def encoded() -> tuple[Encoded, float]:
            work = self._shared.begin("encoded", chunk.number)
            clip, aux = encoders
            return encode_chunk(chunk, clip, aux, work.batch), waited

        made = _packed(_outcome(encoded))
        self._ended = time.perf_counter()
        return made


class OnRay:
    """The engine of a cluster, to which this process must be connected."""

    def __init__(
        self, clip: str, aux: str | None, *, device: str = "auto", dtype: str = "auto", actors: int | None = None
    ) -> None:
        self._encoders = (clip, aux, device, dtype)
        self._actors = actors
        self.waited = 0.0

    def chunks(self, work: Work, numbers: Sequence[int]) -> Iterator[Encoded]:
        """Yield the chunks asked for, as they are done. What a worker had in hand that dies is done again."""
        if not numbers:
            return
        device = self._encoders[2]
        count = min(self._actors or _pool(device), len(numbers))
        reader, encoder = _places(device, count)
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Attempts).remote()
        shared = Shared(ray.put(work), attempts, count)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        rows = ray.data.from_items([{NUMBER: number} for number in numbers], override_num_blocks=len(numbers))
        _settle(rows.context, AHEAD * count * _bytes(work))
        pixels = rows.map_batches(
            partial(read, shared=shared), batch_size=1, batch_format="numpy", num_cpus=reader.cores
        )
        features = pixels.map_batches(
            Encoding,
            fn_constructor_args=(self._encoders, shared),
            batch_size=1,
            batch_format="numpy",
            compute=ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=IN_HAND),
            num_cpus=encoder.cores,
            num_gpus=encoder.graphics,
        )
        for encoded, waited in _results(features.iter_batches(batch_size=1, prefetch_batches=0, batch_format="numpy")):
            self.waited += waited / count
            yield encoded


@lru_cache(1)
def _taken(held: Any) -> Work:
    """Get what is to be done; a process that reads many chunks gets it once."""
    work: Work = ray.get(held)
    return work


def _loaded(clip: str, aux: str | None, device: str, dtype: str, work: Work) -> tuple[Encoder, Encoder | None]:
    tower = make_clip(clip, device=device, dtype=dtype)
    beside = None if aux is None else make_encoder(aux, device=device, dtype=dtype, kind="image")
    for encoder, wanted in ((tower, work.clip), (beside, work.aux)):
        if encoder is not None and encoder.fingerprint != wanted:
            raise EncoderError(
                f"{encoder.name}: a worker has other weights than the driver; install the same everywhere."
            )
    return tower, beside


def _outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives or what goes wrong in it; raised, Ray Data would dress the error in its own."""
    try:
        return call()
    except CosmicError as error:
        return error
    except ray.exceptions.RayError:
        raise
    except Exception as error:
        problem = EncoderError(f"a worker cannot encode: {error!r}.")
        problem.add_note(traceback.format_exc())
        return problem


def _packed(value: object) -> Row:
    """Put a value into a row: its pickle, and beside it the arrays that it holds, not copied."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    parts: list[bytes | memoryview] = [head, *(array.raw() for array in arrays)]
    return {str(place): np.frombuffer(part, np.uint8)[None] for place, part in enumerate(parts)}


def _unpacked(row: Row) -> Any:
    head, *arrays = (row[str(place)][0] for place in range(len(row)))
    return pickle.loads(head, buffers=arrays)


def _pool(device: str) -> int:
    """Return how many encoders suit the cluster: one a GPU if there are any, else one a core."""
    if device == "cuda" and not graphics():
        raise InputError("--device cuda, but no machine of the cluster has a GPU; try --device cpu.")
    return graphics() if device in ("auto", "cuda") and graphics() else cores()


def _places(device: str, count: int) -> tuple[Place, Place]:
    """Return what a reader and each of so many encoders take, so that however many there are, both find room.

    They must not take the same: Ray Data would have the encoders' actors do the reading too.
    """
    if device in ("auto", "cuda") and graphics():
        return Place(1), Place(0, _part(1, count, graphics()))
    return Place(0.5), Place(_part(0.4, count, cores()))


def _part(whole: float, count: int, among: int) -> float:
    return math.floor(10_000 * whole / math.ceil(count / among)) / 10_000  # Ray counts in such parts


def _bytes(work: Work) -> int:
    """Return how many bytes the pixels of a chunk have."""
    recipe = work.recipe
    aux = 0 if recipe.aux is None else math.prod(recipe.aux.size)
    return 3 * work.size * (recipe.count * math.prod(recipe.clip.size) + aux)


def _settle(context: DataContext, room: int) -> None:
    """Have Ray Data say nothing, leave a chunk whole, and hold no more than so many bytes of pixels."""
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = None
    context.execution_options.resource_limits = ExecutionResources(object_store_memory=room)


def _results(rows: Any) -> Iterator[tuple[Encoded, float]]:
    try:
        for row in rows:
            outcome = _unpacked(row)
            if isinstance(outcome, CosmicError):
                raise outcome
            yield outcome
    except (ray.exceptions.RayError, ray.data.exceptions.ExecutionTimeoutError) as error:
        told = (str(error).strip().splitlines() or [""])[0]
        raise EncoderError(f"the workers cannot go on ({type(error).__name__}: {told}). {ADVICE}") from error
