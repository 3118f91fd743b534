"""An extraction on Ray: encoder actors, a call a chunk; the driver writes what they send into the partial folder.

Chunks and batches are those of the local engine, so the pack is too, byte by byte, on processors of the same kind. A
run that is stopped is gone on with by either engine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import ray

from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.errors import CosmicError, EncoderError, InputError
from cosmic_tta.extract import Encoded, Work, encode_chunk
from cosmic_tta.loading import Loader
from cosmic_tta.scale.cluster import RETRIES, cores, graphics

AT_ONCE = 2  # chunks that an actor has in hand: one is encoded while the next is decoded
AHEAD = 1  # that wait for an actor beside these


class Encoding:
    """Both encoders in a worker. Weights come from its own machine, and must be the driver's."""

    def __init__(self, clip: str, aux: str | None, device: str, dtype: str) -> None:
        self._clip = make_clip(clip, device=device, dtype=dtype)
        self._aux = None if aux is None else make_encoder(aux, device=device, dtype=dtype, kind="image")
        self._work: Work | None = None
        self._taking, self._lock = threading.Lock(), threading.Lock()
        self._ended: float | None = None

    def _take(self, held: Sequence[Any]) -> Work:
        """Get what is to be done, once, and refuse it with other weights than the driver's."""
        with self._taking:
            if self._work is None:
                work: Work = ray.get(held[0])
                for encoder, wanted in ((self._clip, work.clip), (self._aux, work.aux)):
                    if encoder is not None and encoder.fingerprint != wanted:
                        raise EncoderError(
                            f"{encoder.name}: a worker has other weights than the driver; install the same everywhere."
                        )
                self._work = work
            return self._work

    def chunk(self, number: int, held: Sequence[Any]) -> tuple[Encoded, float] | CosmicError:
        """Decode and encode a chunk; also tell how long the encoders had nothing to do before it."""
        try:
            work = self._take(held)
            with Loader(work.items, work.recipe, work.size, 0) as loader:
                (chunk,) = loader.chunks([number])
            with self._lock:
                waited = 0.0 if self._ended is None else time.perf_counter() - self._ended
                encoded = encode_chunk(chunk, self._clip, self._aux, work.batch)
                self._ended = time.perf_counter()
            return encoded, waited
        except CosmicError as error:
            return error


class OnRay:
    """The engine of a cluster, to which this process must be connected."""

    def __init__(
        self, clip: str, aux: str | None, *, device: str = "auto", dtype: str = "auto", actors: int | None = None
    ) -> None:
        self._encoders = (clip, aux, device, dtype)
        self._actors = actors
        self.waited = 0.0

    def chunks(self, work: Work, numbers: Sequence[int]) -> Iterator[Encoded]:
        """Yield the chunks asked for, as they are done. An actor that dies is started anew, and its chunks with it."""
        if not numbers:
            return
        count = min(self._actors or _pool(self._encoders[2]), len(numbers))
        graphic = self._encoders[2] in ("auto", "cuda") and graphics() > 0
        kind = ray.remote(
            num_cpus=1,
            num_gpus=1 if graphic else 0,
            max_restarts=-1,
            max_task_retries=RETRIES,
            max_concurrency=AT_ONCE,
        )(Encoding)
        held = [ray.put(work)]  # once; an actor takes it with its first chunk, also when it is started anew
        actors = [kind.remote(*self._encoders) for _ in range(count)]
        waiting = list(reversed(numbers))
        under_way: dict[Any, Any] = {}
        try:
            for _ in range(AT_ONCE + AHEAD):
                for actor in actors:
                    if waiting:
                        under_way[actor.chunk.remote(waiting.pop(), held)] = actor
            while under_way:
                for reference in ray.wait(list(under_way), num_returns=1)[0]:
                    actor = under_way.pop(reference)
                    encoded, waited = _result(reference)
                    if waiting:
                        under_way[actor.chunk.remote(waiting.pop(), held)] = actor
                    self.waited += waited / count
                    yield encoded
        finally:
            for actor in actors:
                ray.kill(actor)


def _pool(device: str) -> int:
    """Return how many actors suit the cluster: one a GPU if there are any, else one a core."""
    if device == "cuda" and not graphics():
        raise InputError("--device cuda, but no machine of the cluster has a GPU; try --device cpu.")
    return graphics() if device in ("auto", "cuda") and graphics() else cores()


def _result(reference: Any) -> tuple[Encoded, float]:
    try:
        outcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise EncoderError(f"a worker cannot encode: {error.cause}.") from error
    except ray.exceptions.RayError as error:
        told = (str(error).strip().splitlines() or [""])[0]
        raise EncoderError(
            f"workers died again and again ({type(error).__name__}: {told}); perhaps the memory ran out: try fewer "
            "--workers or a smaller --batch. What was encoded is kept."
        ) from error
    if isinstance(outcome, CosmicError):
        raise outcome
    made: tuple[Encoded, float] = outcome
    return made
