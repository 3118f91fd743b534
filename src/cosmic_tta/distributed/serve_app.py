"""The service on Ray Serve: one replica of the application, sessions in actors, encoders in replicas.

The application is that of a single machine, with its request limits and queues. It has one replica, because the
requests of a stream must have one order. If it dies, Ray Serve starts another one, which opens the sessions again.
An encoder has as many replicas as its queue needs.
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

from cosmic_tta.core.errors import EncoderError, InputError
from cosmic_tta.distributed.cluster import cluster_cores, cluster_gpus, connect_cluster
from cosmic_tta.distributed.remote_session import RemoteSession
from cosmic_tta.encoders import ClipEncoder, Encoder, Tokens
from cosmic_tta.features.text_towers import attach_task_tower
from cosmic_tta.service.app import make_app
from cosmic_tta.service.encoder_batching import load_encoder
from cosmic_tta.service.server import DRAIN_SECONDS, KEEP_ALIVE_SECONDS
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.sessions.store import Store

APP_NAME = "cosmic-tta"
BATCHES_PER_REPLICA = 2  # that run or wait; with more, Ray Serve starts another replica
ENCODE_SECONDS = 60.0  # that a batch may take
PROXY_SECONDS = 30.0  # that Ray Serve's proxy has to start, on a busy machine
MAX_REQUESTS = 4096  # of the application at the same time; its own limits are lower and answer clearly


def serve_on_ray(
    data: Path,
    settings: ServiceSettings,
    bound: socket.socket,
    address: str | None,
    started: Callable[[], None],
    *,
    log: bool,
) -> None:
    """Serve streams on a Ray cluster until SIGINT or SIGTERM. Requests that have begun are finished first.

    Args:
        data: Folder of the streams. It must have the same path on every machine of the cluster.
        settings: Settings of the service.
        bound: Socket bound to the address of the service. Ray Serve's proxy takes the address over.
        address: Address of a running cluster. None starts one on this machine, which ends with this process.
        started: Called when the service accepts requests.
        log: Whether Ray Serve logs each request.

    Raises:
        InputError: There is no cluster, it serves streams already, or its proxy listens at another address.

    Examples:
        >>> bound = socket.create_server(("127.0.0.1", 8000))  # doctest: +SKIP
        >>> serve_on_ray(Path("/shared/streams"), ServiceSettings(), bound, "auto", print, log=False)  # doctest: +SKIP
    """
    from ray import serve

    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", str(PROXY_SECONDS))  # the default is 5
    stop = threading.Event()
    host, port = bound.getsockname()[:2]
    with connect_cluster(address):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        bound.close()
        options: dict[str, Any] = {
            "http_options": {"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE_SECONDS},
            "logging_config": {"log_level": "INFO" if log else "WARNING", "enable_access_log": log},
        }
        try:
            serve.start(**options)
        except (ray.exceptions.ActorDiedError, TimeoutError):  # the proxy was too slow; Ray Serve starts another
            serve.start(**options)
        if APP_NAME in serve.status().applications:
            raise InputError("this cluster serves streams already; end that server first, or use another cluster.")
        try:
            serve.run(make_deployment(data, settings), name=APP_NAME, route_prefix="/")
            _require_proxy(host, port)
            started()
            stop.wait()
        finally:
            serve.delete(APP_NAME)
            if address is not None:  # others may have applications on this cluster
                for name in serve.status().applications:
                    if name.startswith(f"{APP_NAME}-"):
                        serve.delete(name)


def _require_proxy(host: str, port: int) -> None:
    """Check that the proxy listens at the address. A proxy that ran before keeps its own."""
    deadline = time.monotonic() + PROXY_SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise InputError(
                    f"Ray Serve was started on this cluster before and does not listen at {host}:{port}. Give its "
                    "--host and --port, or end it with `serve shutdown`."
                ) from error
        time.sleep(0.5)


def make_deployment(data: Path, settings: ServiceSettings) -> Any:
    """Return the application for Ray Serve. It opens its sessions in actors."""
    from ray import serve

    def build() -> Any:
        return make_app(Store(data, attach_task_tower, RemoteSession), settings, load_replicated)

    deployment: Any = serve.deployment(
        name=APP_NAME,
        num_replicas=1,
        max_ongoing_requests=MAX_REQUESTS,
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        ray_actor_options={"num_cpus": 0},
    )(serve.ingress(build)())
    return deployment.bind()


def load_replicated(name: str, kind: str, threads: int | None) -> Encoder:
    """Load an encoder here, for texts and dimensions, and in replicas, for images.

    Replicas of an application that died are used again.
    """
    from ray import serve
    from ray.serve.exceptions import RayServeException

    local = load_encoder(name, kind, threads)
    max_replicas = max(1, cluster_gpus() or cluster_cores())
    scaling = {"min_replicas": 1, "max_replicas": max_replicas, "target_ongoing_requests": BATCHES_PER_REPLICA}
    scaling |= {"upscale_delay_s": 5, "downscale_delay_s": 60}
    deployment = serve.deployment(
        autoscaling_config=scaling,
        max_ongoing_requests=2 * BATCHES_PER_REPLICA,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if cluster_gpus() else 0},
    )(EncoderReplica)
    digest = blake2b(f"{name} {threads} {local.fingerprint}".encode(), digest_size=6).hexdigest()
    app_name = f"{APP_NAME}-{kind}-{digest}"
    bound = deployment.bind(name, kind, threads, local.fingerprint)
    try:
        handle = serve.get_app_handle(app_name)
    except RayServeException:
        try:
            handle = serve.run(bound, name=app_name, route_prefix=None)
        except RuntimeError as error:
            raise EncoderError(f"{name}: no worker of the cluster can load it: {error}") from error
    encoder = ReplicatedClip if isinstance(local, ClipEncoder) else ReplicatedEncoder
    return encoder(local, handle, max_replicas * BATCHES_PER_REPLICA)


class EncoderReplica:
    """An encoder in a worker, with the same weights as the application's."""

    def __init__(self, name: str, kind: str, threads: int | None, fingerprint: str) -> None:
        self._encoder = load_encoder(name, kind, threads)
        if self._encoder.fingerprint != fingerprint:
            raise EncoderError(
                f"{name}: the weights of a worker differ from those of the application. "
                "Install the same weights on every machine."
            )

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode a batch."""
        return self._encoder.encode(pixels)


class ReplicatedEncoder:
    """An encoder whose replicas encode images, several batches at the same time."""

    def __init__(self, local: Any, handle: Any, at_once: int) -> None:
        self.name, self.dim, self.preprocessing = local.name, local.dim, local.preprocessing
        self.fingerprint, self.at_once = local.fingerprint, at_once
        # `handle.encode` is read once, here. If several threads read it first, each gets a router of its own, and
        # their reports of the queue length to Ray Serve overwrite each other.
        self._local, self._encode = local, handle.encode

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode a batch in the replica that Ray Serve chooses by queue length."""
        rows: NDArray[np.float32] = self._encode.remote(pixels).result(timeout_s=ENCODE_SECONDS)
        return rows

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return tokens. They are needed rarely, so this process computes them."""
        tokens: Tokens = self._local.tokens(pixels)
        return tokens


class ReplicatedClip(ReplicatedEncoder):
    """A replicated encoder with a text tower. Texts are few, so this process encodes them."""

    def __init__(self, local: Any, handle: Any, at_once: int) -> None:
        super().__init__(local, handle, at_once)
        self.logit_scale = local.logit_scale

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts."""
        rows: NDArray[np.float32] = self._local.encode_texts(texts)
        return rows
