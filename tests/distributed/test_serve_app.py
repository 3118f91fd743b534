"""`cosmic serve --engine ray` answers as on one machine, even if a worker or the application is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.service.client import Client, ServiceError
from tests.support.paths import SUPPORT
from tests.support.ray_processes import workers
from tests.support.serving import CLASSES, Running, features, photograph, samples, served, until, wanted

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]


def kill_application(server: int) -> None:
    """Kill the application's process, and wait until Ray Serve has started another."""
    (application,) = workers(server, "ServeReplica:cosmic-tta:")
    os.kill(application, signal.SIGKILL)
    until(lambda: workers(server, "ServeReplica:cosmic-tta:") not in ([], [application]), 90)


def answers(client: Client) -> bool:
    try:
        return bool(client._connection.json("GET", "/v1/streams/s"))
    except (OSError, ServiceError):
        return False


def test_the_service_answers_as_on_one_machine_even_if_its_processes_are_killed(tmp_path: Path) -> None:
    given = features(samples(30))
    images = [photograph(number) for number in range(6)]
    image = {"Content-Type": "image/png"}
    kinds = {"method": "cosmic"}
    with served(tmp_path / "local") as service:
        assert service.post("/v1/streams", json=wanted("s", **kinds)).status_code == 201
        expected: list[Any] = [
            service.post("/v1/streams/s/predict", json={"features": [one]}).json()["predictions"] for one in given
        ]
        assert service.post("/v1/streams", json={"name": "p", "classes": CLASSES}).status_code == 201
        seen = [
            service.post("/v1/streams/p/predict", content=one, headers=image).json()["predictions"] for one in images
        ]
    with Running(tmp_path / "ray", "--engine", "ray") as server, server.client() as client:
        client._connection.json("POST", "/v1/streams", wanted("s", **kinds))
        predictions = []
        for number, one in enumerate(given):
            if number in (10, 20):
                (actor,) = workers(server.process.pid, "SessionActor")
                os.kill(actor, signal.SIGKILL)
            if number == 15:
                kill_application(server.process.pid)
                until(lambda: answers(client), 90)
            predictions.append(
                client._connection.json("POST", "/v1/streams/s/predict", {"features": [one]})["predictions"]
            )
        assert predictions == expected
        client.create("p", CLASSES)
        assert workers(server.process.pid, "ServeReplica:cosmic-tta-clip"), "images are not encoded by replicas"
        for content, before in zip(images, seen, strict=True):
            answer = client._connection.request("POST", "/v1/streams/p/predict", content, "image/png")
            assert json.loads(answer)["predictions"] == before
        client._connection.json("POST", "/v1/streams/s/pause")
        assert client._connection.json("GET", "/v1/streams/s")["paused"]
        client._connection.json("DELETE", "/v1/streams/p")
        complaints = server.stop(90)
        assert server.process.returncode == 0, complaints
    # A new server opens the streams again.
    with Running(tmp_path / "ray", "--engine", "ray") as server, server.client() as client:
        assert client._connection.json("GET", "/v1/streams/s")["number"] == len(given) + 1
        server.stop(90)
    with served(tmp_path / "ray") as service:  # one machine can continue
        assert service.get("/v1/streams/s").json()["number"] == len(given) + 1


def test_an_encoder_gets_more_replicas_if_its_queue_grows() -> None:
    script = SUPPORT / "ray_queue.py"
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    result = json.loads(next(line for line in done.stdout.splitlines()[::-1] if line.startswith("{")))
    assert result["before"] == 1
    assert result["batches"] > 12
    assert result["equal"]
    assert result["most"] >= 3
