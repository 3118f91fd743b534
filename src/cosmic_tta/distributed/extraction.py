"""An extraction on Ray Data: tasks decode images, actors encode them, and this process writes the features.

One row of the Ray Data pipeline is one chunk. Chunks and batches are those of the local engine. So the pack has the
same bytes, on processors of the same kind, and either engine can continue a run of the other.
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
from typing import Any, NamedTuple

import numpy as np
import ray
import ray.data
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext, ExecutionResources

from cosmic_tta.core.errors import CosmicError, EncoderError, InputError
from cosmic_tta.distributed.cluster import MAX_RETRIES, cluster_cores, cluster_gpus
from cosmic_tta.encoders import Encoder, make_clip, make_encoder
from cosmic_tta.features.extraction.engine import EncodedChunk, encode_chunk
from cosmic_tta.features.extraction.loader import DecodedChunk, ImageLoader
from cosmic_tta.features.extraction.plan import ExtractionPlan

Row = Mapping[str, NDArray[Any]]  # a batch of one row
SUBMITTED_PER_ENCODER = 2  # chunks: one is encoded, the next is ready
DECODED_PER_ENCODER = 8  # chunks whose pixels may be in the object store
CHUNK_NUMBER = "number"
ADVICE = "The memory may be full: try fewer --workers or a smaller --batch. Encoded images are kept."


class EncoderNames(NamedTuple):
    """The encoders of an extraction, and how to load them."""

    clip: str
    aux: str | None
    device: str
    dtype: str


@dataclass(frozen=True)
class WorkerResources:
    """Cores and GPUs that one worker reserves in the cluster."""

    cores: float
    gpus: float = 0.0


class AttemptCounter:
    """Counts the attempts at each piece of work. Ray Data alone retries without limit if a worker dies."""

    def __init__(self) -> None:
        self._attempts = Counter[tuple[str, int]]()

    def begin(self, stage: str, number: int) -> int:
        """Count one more attempt, and return how many there are."""
        self._attempts[stage, number] += 1
        return self._attempts[stage, number]

    def succeed(self, stage: str, number: int) -> None:
        """Count from zero again."""
        self._attempts[stage, number] = 0


@dataclass(frozen=True)
class SharedPlan:
    """What all workers of an extraction share."""

    plan: Any  # reference to an ExtractionPlan in the object store
    attempts: Any  # handle of the AttemptCounter actor
    encoders: int  # number of actors that encode

    def begin(self, stage: str, number: int) -> ExtractionPlan:
        """Return the plan, unless too many workers died at this stage of the chunk."""
        if ray.get(self.attempts.begin.remote(stage, number)) > 1 + MAX_RETRIES:
            raise EncoderError(f"{1 + MAX_RETRIES} workers died while they tried to {stage} chunk {number}. {ADVICE}")
        return _get_plan(self.plan)

    def load(self, names: EncoderNames) -> tuple[Encoder, Encoder | None]:
        """Load both encoders, unless too many workers died at it without a success in between."""
        limit = self.encoders * (1 + MAX_RETRIES)
        if ray.get(self.attempts.begin.remote("load", 0)) > limit:
            raise EncoderError(f"{limit} workers died while they tried to load the encoders. {ADVICE}")
        loaded = _load_encoders(names, _get_plan(self.plan))
        ray.get(self.attempts.succeed.remote("load", 0))
        return loaded


def decode_chunk(row: Row, *, shared: SharedPlan) -> Row:
    """Read, decode and crop the images of a chunk. Runs in a Ray task."""

    def decode() -> DecodedChunk:
        number = int(row[CHUNK_NUMBER][0])
        plan = shared.begin("decode", number)
        with ImageLoader(plan.items, plan.pipeline, plan.chunk_size, 0) as loader:
            return next(loader.chunks([number]))

    return _to_row(_result_or_error(decode))


class EncodingActor:
    """A Ray actor with both encoders. It loads them on its own machine and checks that the weights are the same."""

    def __init__(self, names: EncoderNames, shared: SharedPlan) -> None:
        self._shared = shared
        self._encoders = _result_or_error(lambda: shared.load(names))
        self._last_end: float | None = None

    def __call__(self, row: Row) -> Row:
        """Encode a chunk. Return it with the seconds for which the encoders had nothing to do before it."""
        waited = 0.0 if self._last_end is None else time.perf_counter() - self._last_end
        chunk, encoders = _from_row(row), self._encoders
        for value in (encoders, chunk):
            if isinstance(value, CosmicError):
                return _to_row(value)

        def encode() -> tuple[EncodedChunk, float]:
            plan = self._shared.begin("encode", chunk.number)
            clip, aux = encoders
            return encode_chunk(chunk, clip, aux, plan.batch), waited

        result = _to_row(_result_or_error(encode))
        self._last_end = time.perf_counter()
        return result


class RayEngine:
    """An `ExtractionEngine` that encodes on a Ray cluster. The process must be connected to it.

    The images must have the same path on every machine of the cluster. Workers load the encoders by name, and refuse
    weights that differ from those of this process.

    Args:
        clip: Name of the CLIP encoder.
        aux: Name of the auxiliary encoder, if there is one.
        device: Device of the encoders: `auto`, `cpu` or `cuda`.
        dtype: Precision of the encoders.
        actors: Number of actors that encode. None: one per GPU, or one per core if there is no GPU.

    Examples:
        >>> engine = RayEngine("mini:clip", "mini:dino", actors=2)
        >>> engine.waited
        0.0
        >>> with connect_cluster("auto"):  # doctest: +SKIP
        ...     extract(dataset, clip, aux, "packs/flowers", texts=texts, engine=engine)
    """

    def __init__(
        self, clip: str, aux: str | None, *, device: str = "auto", dtype: str = "auto", actors: int | None = None
    ) -> None:
        self._names = EncoderNames(clip, aux, device, dtype)
        self._actors = actors
        self.waited = 0.0  # seconds for which an encoder had no images, averaged over the encoders

    def chunks(self, plan: ExtractionPlan, numbers: Sequence[int]) -> Iterator[EncodedChunk]:
        """Yield the chunks of these numbers as they are done. A chunk whose worker dies is repeated.

        Args:
            plan: The images and the settings.
            numbers: The chunks to encode.

        Raises:
            EncoderError: Workers cannot load the encoders, or died too often.
            InputError: `cuda` was asked for, and the cluster has no GPU.
        """
        if not numbers:
            return
        device = self._names.device
        count = min(self._actors or _default_encoders(device), len(numbers))
        for_decoder, for_encoder = _worker_resources(device, count)
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(AttemptCounter).remote()
        shared = SharedPlan(ray.put(plan), attempts, count)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        rows = ray.data.from_items([{CHUNK_NUMBER: number} for number in numbers], override_num_blocks=len(numbers))
        _configure(rows.context, DECODED_PER_ENCODER * count * _chunk_bytes(plan))
        decoded = rows.map_batches(
            partial(decode_chunk, shared=shared), batch_size=1, batch_format="numpy", num_cpus=for_decoder.cores
        )
        encoded = decoded.map_batches(
            EncodingActor,
            fn_constructor_args=(self._names, shared),
            batch_size=1,
            batch_format="numpy",
            compute=ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=SUBMITTED_PER_ENCODER),
            num_cpus=for_encoder.cores,
            num_gpus=for_encoder.gpus,
        )
        for chunk, waited in _results(encoded.iter_batches(batch_size=1, prefetch_batches=0, batch_format="numpy")):
            self.waited += waited / count
            yield chunk


@lru_cache(1)
def _get_plan(reference: Any) -> ExtractionPlan:
    """Get the plan from the object store, once per process."""
    plan: ExtractionPlan = ray.get(reference)
    return plan


def _load_encoders(names: EncoderNames, plan: ExtractionPlan) -> tuple[Encoder, Encoder | None]:
    clip = make_clip(names.clip, device=names.device, dtype=names.dtype)
    aux = None
    if names.aux is not None:
        aux = make_encoder(names.aux, device=names.device, dtype=names.dtype, kind="image")
    for encoder, fingerprint in ((clip, plan.clip_fingerprint), (aux, plan.aux_fingerprint)):
        if encoder is not None and encoder.fingerprint != fingerprint:
            raise EncoderError(
                f"{encoder.name}: the weights of a worker differ from those of this process. "
                "Install the same weights on every machine."
            )
    return clip, aux


def _result_or_error(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error: Ray Data would wrap an error that is raised."""
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


def _to_row(value: object) -> Row:
    """Put a value into a row: its pickle first, then its arrays without a copy."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    parts: list[bytes | memoryview] = [head, *(array.raw() for array in arrays)]
    return {str(index): np.frombuffer(part, np.uint8)[None] for index, part in enumerate(parts)}


def _from_row(row: Row) -> Any:
    head, *arrays = (row[str(index)][0] for index in range(len(row)))
    return pickle.loads(head, buffers=arrays)


def _default_encoders(device: str) -> int:
    """Return the number of encoders for the cluster: one per GPU, or one per core if there is no GPU."""
    gpus = cluster_gpus()
    if device == "cuda" and not gpus:
        raise InputError("--device cuda, but no machine of the cluster has a GPU; try --device cpu.")
    return gpus if device in ("auto", "cuda") and gpus else cluster_cores()


def _worker_resources(device: str, encoders: int) -> tuple[WorkerResources, WorkerResources]:
    """Return the resources of a decoder and of each encoder, so that all encoders and some decoders fit.

    The two must differ: otherwise Ray Data would run both stages in the encoders' actors.
    """
    gpus = cluster_gpus()
    if device in ("auto", "cuda") and gpus:
        return WorkerResources(1), WorkerResources(0, _share(1, encoders, gpus))
    return WorkerResources(0.5), WorkerResources(_share(0.4, encoders, cluster_cores()))


def _share(whole: float, workers: int, units: int) -> float:
    """Divide a part of each unit among its workers, rounded down to the 1/10,000 in which Ray counts."""
    return math.floor(10_000 * whole / math.ceil(workers / units)) / 10_000


def _chunk_bytes(plan: ExtractionPlan) -> int:
    """Return the number of bytes of a chunk's pixels."""
    pipeline = plan.pipeline
    aux = 0 if pipeline.aux is None else math.prod(pipeline.aux.size)
    return 3 * plan.chunk_size * (pipeline.count * math.prod(pipeline.clip.size) + aux)


def _configure(context: DataContext, max_bytes: int) -> None:
    """Silence Ray Data, keep it from splitting chunks, and bound the pixels in the object store."""
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = None
    context.execution_options.resource_limits = ExecutionResources(object_store_memory=max_bytes)


def _results(rows: Any) -> Iterator[tuple[EncodedChunk, float]]:
    """Yield what the actors return, and raise the errors among it."""
    try:
        for row in rows:
            result = _from_row(row)
            if isinstance(result, CosmicError):
                raise result
            yield result
    except (ray.exceptions.RayError, ray.data.exceptions.ExecutionTimeoutError) as error:
        message = (str(error).strip().splitlines() or [""])[0]
        raise EncoderError(f"the workers cannot continue ({type(error).__name__}: {message}). {ADVICE}") from error
