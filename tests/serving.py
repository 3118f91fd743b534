"""A service to test against: in this process, or as a process of its own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from cosmic_tta.client import Client
from cosmic_tta.core import Sample
from cosmic_tta.datasets.embedded import read
from cosmic_tta.ops import unit
from cosmic_tta.service.app import make_app
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store
from cosmic_tta.towers import task_with_tower

CLASSES = ["airplane", "cat", "ship", "truck"]
WIDTH, AUX = 16, 12


def rows(count: int, width: int = WIDTH, seed: int = 0) -> np.ndarray[Any, Any]:
    """Unit rows in float32."""
    return unit(np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32))


TEXT = rows(len(CLASSES), seed=99)


def samples(count: int, seed: int = 0) -> list[Sample]:
    """Samples near the class texts, so that something is learned."""
    rng = np.random.default_rng(seed)
    clip = unit((TEXT[rng.integers(len(TEXT), size=count)] + 0.3 * rows(count, seed=seed + 1)).astype(np.float32))
    aux = rows(count, AUX, seed + 2)
    return [Sample(one[None], other) for one, other in zip(clip, aux, strict=True)]


def features(given: Sequence[Sample]) -> list[dict[str, Any]]:
    """Samples as JSON holds them; float32 comes back bit by bit."""
    return [{"clip": one.clip.tolist(), "aux": None if one.aux is None else one.aux.tolist()} for one in given]


def wanted(name: str = "s", **more: Any) -> dict[str, Any]:
    """A stream of features."""
    return {"name": name, "classes": CLASSES, "encoder": None, "text": TEXT.tolist(), **more}


def photograph(number: int = 0) -> bytes:
    """A small PNG."""
    return read(number)


@contextmanager
def served(folder: Path, settings: Settings | None = None, token: str = "") -> Iterator[TestClient]:
    """The application in this process, ready."""
    app = make_app(Store(folder, task_with_tower), settings)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        if token:
            client.headers["Authorization"] = f"Bearer {token}"
        until(lambda: client.get("/ready").status_code == 200)
        yield client


def until(true: Any, seconds: float = 30.0) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)


class Running:
    """`cosmic serve` as a process of its own; its port is any that is free."""

    def __init__(self, folder: Path, *options: str) -> None:
        words = [sys.executable, "-m", "cosmic_tta", "serve", "--data", str(folder), "--port", "0", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if not found:
            raise RuntimeError(line + self.process.communicate()[1])
        self.url = found[0]
        self.port = int(self.url.rpartition(":")[2])

    def client(self, token: str = "") -> Client:
        """A client of it, once it is ready."""
        client = Client(self.url, token=token)
        until(client.ready)
        return client

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()
        self.process.communicate()

    def stop(self, seconds: float = 30.0) -> str:
        """Ask it to end; return what it complained of."""
        self.process.terminate()
        return self.process.communicate(timeout=seconds)[1]

    def memory(self) -> int:
        """Bytes that it and the processes it started hold."""
        return sum(_resident(process) for process in [self.process.pid, *_children(self.process.pid)])

    def complaints(self) -> str:
        """What is on its stderr by now."""
        assert self.process.stderr is not None
        read_now = b""
        while select.select([self.process.stderr], [], [], 0)[0]:
            piece = os.read(self.process.stderr.fileno(), 65536)
            if not piece:
                break
            read_now += piece
        return read_now.decode()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Nursery:
    """Servers that start within a moment, because everything is imported before they are needed."""

    def __init__(self) -> None:
        program = str(Path(__file__).with_name("forking_server.py"))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._number = 0
        self.url = ""

    def start(self, folder: Path) -> Client:
        """Start a server; return a client of it, once it is ready."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{folder}\n")
        self._parent.stdin.flush()
        number, self.url = self._parent.stdout.readline().split()
        self._number = int(number)
        client = Client(self.url, timeout=20)
        until(client.ready)
        return client

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it as a power cut does, or as told, and wait until it is gone."""
        os.kill(self._number, how)
        until(lambda: not Path(f"/proc/{self._number}").exists())

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        if self._number and Path(f"/proc/{self._number}").exists():
            os.kill(self._number, signal.SIGKILL)
        self._parent.communicate()


def _resident(process: int) -> int:
    try:
        told = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(told[1]) * 1024 if told else 0


def _children(process: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
