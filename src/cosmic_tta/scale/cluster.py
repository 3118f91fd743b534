"""A Ray cluster: one that runs, found by its address, or one of this machine that ends with us."""

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

from cosmic_tta.errors import InputError
from cosmic_tta.sweep import THREADS, available_cores

PATIENCE = 10.0  # seconds until who should listen has answered
TRIES = 2  # to speak with a cluster whose port is open
RETRIES = 3  # of what was under way in a worker that died
ONE_THREAD: dict[str, Any] = {"env_vars": dict.fromkeys(THREADS, "1")}


@contextmanager
def cluster(address: str | None = None, *, cores: int | None = None, memory: int | None = None) -> Iterator[None]:
    """Be connected to a cluster; if this process already is, to that one.

    Args:
        address: `HOST:PORT`, `auto` or `ray://...`; none: a cluster of this machine, which ends with us.
        cores: of a cluster of this machine; all unless told.
        memory: bytes of its object store; Ray's own choice unless told.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anyone
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else Ray's core writes to the terminal past its log
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        quiet |= {"num_cpus": cores or available_cores(), "include_dashboard": False, "object_store_memory": memory}
        quiet["address"] = "local"
    else:
        _require_listener(address)
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(TRIES))  # else twenty, of half a minute each
    try:
        ended = signal.getsignal(signal.SIGTERM)
        with _hushed():
            ray.init(**({"address": address} | quiet))
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ended)  # Ray takes it for a crash, and prints a stack
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        at = "on this machine" if address is None else f"at {address!r}"
        raise InputError(
            f"no Ray cluster {at}: {str(error).splitlines()[0] if str(error) else error!r} "
            "Start one with `ray start --head`, or leave out --address; if it asks for a token: RAY_AUTH_MODE=token."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Refuse at once an address where nobody listens; Ray would try on for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`, or a form that Ray knows and we do not
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster at {address!r}: nobody listens there ({error}). `ray start --head` tells the address of "
            "the cluster that it starts; without --address one of this machine is used."
        ) from error


@contextmanager
def _hushed() -> Iterator[None]:
    """Leave out what is written to the terminal meanwhile: Ray's core says there what its level of logging is."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def cores() -> int:
    """Return how many cores the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def graphics() -> int:
    """Return how many GPUs the cluster has."""
    return int(ray.cluster_resources().get("GPU", 0))
