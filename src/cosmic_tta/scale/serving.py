"""The service on Ray: its streams in actors, its encoders in replicas of Ray Serve that follow the queue.

The application in front is the one of a single machine, with its gate, its lanes and its bounds. Ray Serve's own HTTP
proxy is not used: a stream's requests must come in one order, which one front keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.encoders import ClipEncoder, Encoder, Tokens, make_clip, make_encoder
from cosmic_tta.errors import EncoderError
from cosmic_tta.scale.cluster import cluster, cores, graphics
from cosmic_tta.scale.streaming import DistantSession
from cosmic_tta.service.encoding import Load, load_here
from cosmic_tta.store import Store
from cosmic_tta.towers import task_with_tower

TARGET = 2  # batches that a replica has in hand; when there are more, another replica is started
SECONDS = 60.0  # that a batch may take


@contextmanager
def joined(data: Path, address: str | None = None) -> Iterator[tuple[Store, Load]]:
    """Be connected to a cluster; give a store whose sessions live there, and what loads encoders there."""
    from ray import serve

    with cluster(address):
        serve.start(http_options={"location": "NoServer"})
        try:
            yield Store(data, task_with_tower, DistantSession), load_there
        finally:
            serve.shutdown()


def load_there(name: str, kind: str, threads: int | None) -> Encoder:
    """Load an encoder here, for its texts and measures, and in replicas, for its pictures."""
    from ray import serve

    here = load_here(name, kind, threads)
    most = max(1, graphics() or cores())
    scaled = {"min_replicas": 1, "max_replicas": most, "target_ongoing_requests": TARGET}
    scaled |= {"upscale_delay_s": 5, "downscale_delay_s": 60}
    deployment = serve.deployment(
        autoscaling_config=scaled,
        max_ongoing_requests=2 * TARGET,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if graphics() else 0},
    )(Replica)
    title = f"encoder-{kind}-{blake2b(name.encode(), digest_size=6).hexdigest()}"
    bound = deployment.bind(name, kind, threads, here.fingerprint)
    try:
        handle = serve.run(bound, name=title, route_prefix=None)
    except RuntimeError as error:
        raise EncoderError(f"{name}: no worker of the cluster can load it: {error}") from error
    made = ReplicatedClip if isinstance(here, ClipEncoder) else ReplicatedEncoder
    return made(here, handle, most * TARGET)


class Replica:
    """An encoder in a worker, with the weights that the front has."""

    def __init__(self, name: str, kind: str, threads: int | None, fingerprint: str) -> None:
        made = make_clip(name, threads=threads) if kind == "clip" else make_encoder(name, kind="image", threads=threads)
        if made.fingerprint != fingerprint:
            raise EncoderError(f"{name}: a worker has other weights than the front; install the same everywhere.")
        self._encoder = made

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode a batch."""
        return self._encoder.encode(pixels)


class ReplicatedEncoder:
    """An encoder whose pictures are encoded by replicas, several batches at once."""

    def __init__(self, here: Any, handle: Any, at_once: int) -> None:
        self.name, self.dim, self.preprocessing = here.name, here.dim, here.preprocessing
        self.fingerprint, self.at_once = here.fingerprint, at_once
        self._here, self._handle = here, handle

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode a batch in whichever replica has the shorter queue."""
        rows: NDArray[np.float32] = self._handle.encode.remote(pixels).result(timeout_s=SECONDS)
        return rows

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return tokens; they are asked for seldom, and here."""
        found: Tokens = self._here.tokens(pixels)
        return found


class ReplicatedClip(ReplicatedEncoder):
    """One with a text tower; sentences are few, and encoded here."""

    def __init__(self, here: Any, handle: Any, at_once: int) -> None:
        super().__init__(here, handle, at_once)
        self.logit_scale = here.logit_scale

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences."""
        rows: NDArray[np.float32] = self._here.encode_texts(texts)
        return rows
