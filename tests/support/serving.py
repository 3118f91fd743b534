"""Services for tests: in this process, or in a process of their own."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from cosmic_tta.core.arrays import unit
from cosmic_tta.core.types import Sample
from cosmic_tta.data.datasets.embedded import read
from cosmic_tta.features.text_towers import attach_task_tower
from cosmic_tta.service.app import make_app
from cosmic_tta.service.client import Client
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.sessions.store import Store
from tests.support.paths import SUPPORT

CLASSES = ["airplane", "cat", "ship", "truck"]
WIDTH, AUX = 16, 12


def rows(count: int, width: int = WIDTH, seed: int = 0) -> np.ndarray[Any, Any]:
    """Unit rows in float32."""
    return unit(np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32))


TEXT = rows(len(CLASSES), seed=99)


def samples(count: int, seed: int = 0) -> list[Sample]:
    """Samples near the class texts, so that a method learns from them."""
    rng = np.random.default_rng(seed)
    clip = unit((TEXT[rng.integers(len(TEXT), size=count)] + 0.3 * rows(count, seed=seed + 1)).astype(np.float32))
    aux = rows(count, AUX, seed + 2)
    return [Sample(one[None], other) for one, other in zip(clip, aux, strict=True)]


def features(given: Sequence[Sample]) -> list[dict[str, Any]]:
    """Samples as JSON values; float32 survives bit by bit."""
    return [{"clip": one.clip.tolist(), "aux": None if one.aux is None else one.aux.tolist()} for one in given]


def wanted(name: str = "s", **more: Any) -> dict[str, Any]:
    """The request that creates a stream of features."""
    return {"name": name, "classes": CLASSES, "encoder": None, "text": TEXT.tolist(), **more}


def photograph(number: int = 0) -> bytes:
    """A small PNG."""
    return read(number)


@contextmanager
def served(folder: Path, settings: ServiceSettings | None = None, token: str = "") -> Iterator[TestClient]:
    """The application in this process, ready."""
    app = make_app(Store(folder, attach_task_tower), settings)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        if token:
            client.headers["Authorization"] = f"Bearer {token}"
        until(lambda: client.get("/ready").status_code == 200)
        yield client


def learn(service: TestClient, stream: str, count: int = 5, seed: int = 0, **query: Any) -> list[dict[str, Any]]:
    """Send samples to a stream, given by its path; return the predictions."""
    answer = service.post(f"{stream}/predict", json={"features": features(samples(count, seed))}, params=query)
    assert answer.status_code == 200, answer.text
    predictions: list[dict[str, Any]] = answer.json()["predictions"]
    return predictions


def predict_images(service: TestClient, stream: str, numbers: range, **query: Any) -> None:
    """Send photographs to a stream, given by its name, one per request."""
    for number in numbers:
        answer = service.post(
            f"/v1/streams/{stream}/predict",
            content=photograph(number),
            params=query,
            headers={"Content-Type": "image/png"},
        )
        assert answer.status_code == 200, answer.text


def get_json(service: TestClient, path: str) -> dict[str, Any]:
    """The JSON at a path under /v1/."""
    answer = service.get(f"/v1/{path}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def digest(service: TestClient, stream: str) -> str:
    """The fingerprint of a stream's state, given its path."""
    answer = service.get(stream, params={"digest": "true"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["digest"])


def check_problem(answer: Any, status: int) -> dict[str, str]:
    """Check that a response is an error of the common form, with security headers; return its body."""
    assert answer.status_code == status, answer.text
    body: dict[str, str] = answer.json()
    assert set(body) == {"error", "detail", "hint"}
    assert all(body.values())
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return body


def send_raw(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send bytes with pauses; return all that arrives until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:
                break
            time.sleep(pause)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)


class Running:
    """`cosmic serve` in a process of its own, on a free port."""

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
        """A client, once the server is ready."""
        client = Client(self.url, token=token, timeout=180)  # a busy machine starts encoders slowly
        until(client.ready)
        return client

    def kill(self) -> None:
        """Kill it without warning."""
        self.process.kill()
        self.process.communicate()

    def stop(self, seconds: float = 30.0) -> str:
        """Terminate it; return its stderr."""
        self.process.terminate()
        return self.process.communicate(timeout=seconds)[1]

    def memory(self) -> int:
        """Resident bytes of it and of its child processes."""
        return sum(_resident(process) for process in [self.process.pid, *_children(self.process.pid)])

    def stderr(self) -> str:
        """Its stderr so far."""
        assert self.process.stderr is not None
        received = b""
        while select.select([self.process.stderr], [], [], 0)[0]:
            piece = os.read(self.process.stderr.fileno(), 65536)
            if not piece:
                break
            received += piece
        return received.decode()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class ForkingServer:
    """Servers that start quickly, because they are forked from a process that has imported everything."""

    def __init__(self) -> None:
        program = str(SUPPORT / "forking_server.py")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._number = 0
        self.url = ""

    def start(self, folder: Path) -> Client:
        """Start a server; return a client, once it is ready."""
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
        """Send a signal, SIGKILL by default, and wait until the process has ended."""
        os.kill(self._number, how)
        until(lambda: not Path(f"/proc/{self._number}").exists())

    def __enter__(self) -> ForkingServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._number and Path(f"/proc/{self._number}").exists():
            os.kill(self._number, signal.SIGKILL)
        self._parent.communicate()


def _resident(process: int) -> int:
    try:
        match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


def _children(process: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
