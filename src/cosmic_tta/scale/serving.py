"""The service on Ray Serve: behind its HTTP proxy one front, the streams in actors, the encoders in replicas.

The front is the application of a single machine, with its gate, its lanes and its bounds. There is one replica of it,
because a stream's requests must come in one order; when it dies, Ray Serve starts it anew, and it finds its streams.
Encoders have as many replicas as their queue needs.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from cosmic_tta.encoders import ClipEncoder, Encoder, Tokens, make_clip, make_encoder
from cosmic_tta.errors import EncoderError, InputError
from cosmic_tta.scale.cluster import cluster, cores, graphics
from cosmic_tta.scale.streaming import DistantSession
from cosmic_tta.service.app import make_app
from cosmic_tta.service.encoding import load_here
from cosmic_tta.service.running import DRAIN, KEEP_ALIVE
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store
from cosmic_tta.towers import task_with_tower

TARGET = 2  # batches that a replica has in hand; when there are more, another replica is started
SECONDS = 60.0  # that a batch may take
SLOW = 30.0  # seconds until Ray Serve's proxy listens, on a busy machine
FRONT = "cosmic-tta"
BUSY = 4096  # requests that the front has in hand; its gate and its lanes say what becomes of them


def run(
    data: Path, settings: Settings, bound: socket.socket, address: str | None, started: Callable[[], None], *, log: bool
) -> None:
    """Serve until the process is told to end; what is under way is finished first.

    Args:
        data: where streams are kept, as every machine of the cluster sees it.
        settings: the bounds of the server.
        bound: the address to listen on; Ray Serve's proxy takes its place.
        address: of a cluster that runs; none: one of this machine, which ends with us.
        started: called when requests can come.
        log: let Ray Serve log each request.
    """
    from ray import serve

    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", str(SLOW))  # else five, few for a busy machine
    told = threading.Event()
    host, port = bound.getsockname()[:2]
    with cluster(address):
        for asked in (signal.SIGINT, signal.SIGTERM):
            signal.signal(asked, lambda *_: told.set())
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        bound.close()
        how: dict[str, Any] = {
            "http_options": {"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE},
            "logging_config": {"log_level": "INFO" if log else "WARNING", "enable_access_log": log},
        }
        try:
            serve.start(**how)
        except (ray.exceptions.ActorDiedError, TimeoutError):  # a proxy was too slow; Ray Serve starts another
            serve.start(**how)
        if FRONT in serve.status().applications:
            raise InputError("this cluster serves streams already; end that server first, or use another cluster.")
        try:
            serve.run(front(data, settings), name=FRONT, route_prefix="/")
            _require_proxy(host, port)
            started()
            told.wait()
        finally:
            serve.delete(FRONT)
            if address is not None:  # others may have applications on this cluster
                for name in serve.status().applications:
                    if name.startswith(f"{FRONT}-"):
                        serve.delete(name)


def _require_proxy(host: str, port: int) -> None:
    """Make sure that the proxy listens where it was told: one that ran before us keeps its address."""
    until = time.monotonic() + SLOW
    while True:
        try:
            socket.create_connection((host, port), timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise InputError(
                    f"Ray Serve was started on this cluster before, and does not listen at {host}:{port}; give its "
                    "--host and --port, or end it with `serve shutdown`."
                ) from error
        time.sleep(0.5)


def front(data: Path, settings: Settings) -> Any:
    """Return the application that Ray Serve runs; its streams' sessions are opened in workers."""
    from ray import serve

    def build() -> Any:
        return make_app(Store(data, task_with_tower, DistantSession), settings, load_there)

    made: Any = serve.deployment(
        name=FRONT,
        num_replicas=1,
        max_ongoing_requests=BUSY,
        graceful_shutdown_timeout_s=DRAIN,
        ray_actor_options={"num_cpus": 0},
    )(serve.ingress(build)())
    return made.bind()


def load_there(name: str, kind: str, threads: int | None) -> Encoder:
    """Load an encoder here, for its texts and measures, and in replicas, for its pictures.

    Replicas that a front before this one has started go on.
    """
    from ray import serve
    from ray.serve.exceptions import RayServeException

    here = load_here(name, kind, threads)
    most = max(1, graphics() or cores())
    scaled = {"min_replicas": 1, "max_replicas": most, "target_ongoing_requests": TARGET}
    scaled |= {"upscale_delay_s": 5, "downscale_delay_s": 60}
    deployment = serve.deployment(
        autoscaling_config=scaled,
        max_ongoing_requests=2 * TARGET,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if graphics() else 0},
    )(Replica)
    same = blake2b(f"{name} {threads} {here.fingerprint}".encode(), digest_size=6).hexdigest()
    title = f"{FRONT}-{kind}-{same}"
    bound = deployment.bind(name, kind, threads, here.fingerprint)
    try:
        handle = serve.get_app_handle(title)
    except RayServeException:
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
        # The method is asked for once, here: several threads that ask a handle for the first time get a router each,
        # all of one name, and their reports of the queue to Ray Serve cover one another.
        self._here, self._encode = here, handle.encode

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode a batch in whichever replica has the shorter queue."""
        rows: NDArray[np.float32] = self._encode.remote(pixels).result(timeout_s=SECONDS)
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
