"""Connect to a running Ray cluster by its address, or start one on this machine that ends with this process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.sweep import THREADS, available_cores
from cosmic_tta.methods.plugins import VARIABLE

LISTENER_SECONDS = 10.0  # that a port has to accept a connection
MAX_CONNECT_ATTEMPTS = 2  # of Ray, at an address whose port is open
MAX_RETRIES = 3  # of work whose worker died
ONE_THREAD: dict[str, Any] = {"env_vars": dict.fromkeys(THREADS, "1")}  # a `runtime_env` of Ray


@contextmanager
def connect_cluster(
    address: str | None = None, *, cores: int | None = None, object_store_bytes: int | None = None
) -> Iterator[None]:
    """Connect this process to a cluster for the duration of a `with` block.

    A process that is connected already keeps its connection; the arguments have no effect then. A cluster that was
    started here ends with the block. A cluster that was joined continues.

    Args:
        address: `HOST:PORT`, `auto` or `ray://...` of a running cluster. None starts one on this machine.
        cores: Cores of a cluster that is started here. None: all that this process may use.
        object_store_bytes: Size of the object store of a cluster that is started here. None: Ray decides.

    Raises:
        InputError: There is no cluster at the address, or none can be started here.

    Examples:
        >>> with connect_cluster(cores=2):  # doctest: +SKIP
        ...     cluster_cores()
        2
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no statistics to Ray's makers
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray's C++ core writes to the terminal, not to the log
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"address": "local", "num_cpus": cores or available_cores(), "include_dashboard": False}
        options["object_store_memory"] = object_store_bytes
    else:
        _require_listener(address)
        # The default is 20 attempts of half a minute each.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(MAX_CONNECT_ATTEMPTS))
        if VARIABLE in os.environ:  # files with methods, at the same paths on every node
            options["runtime_env"] = {"env_vars": {VARIABLE: os.environ[VARIABLE]}}
    try:
        sigterm_handler = signal.getsignal(signal.SIGTERM)
        with _silent_stderr():
            ray.init(**options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, sigterm_handler)  # Ray's own handler prints a stack, as for a crash
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at {address!r}"
        raise InputError(
            f"no Ray cluster {where}: {str(error).splitlines()[0] if str(error) else error!r} "
            "Start one with `ray start --head`, or leave out --address. If it needs a token, set RAY_AUTH_MODE=token."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Refuse an address where no process listens. Ray itself would retry for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`, or another form that Ray checks
    try:
        socket.create_connection((host.strip("[]"), int(port)), LISTENER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster at {address!r}: no process listens there ({error}). Give the address that "
            "`ray start --head` prints, or leave out --address to use this machine."
        ) from error


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard stderr of the whole process: Ray's C++ core prints its log level there."""
    stderr = os.dup(2)
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def cluster_cores() -> int:
    """Return the number of cores in the cluster, at least 1."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def cluster_gpus() -> int:
    """Return the number of GPUs in the cluster."""
    return int(ray.cluster_resources().get("GPU", 0))
