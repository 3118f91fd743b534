"""`cosmic serve --engine ray`: the answers of one machine, though a worker or the front is killed between two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray_processes import workers
from serving import CLASSES, Running, features, photograph, samples, served, until, wanted

from cosmic_tta.client import Client, ServiceError

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]


def kill_front(server: int) -> None:
    """Kill the front, and wait for Ray Serve to start it anew."""
    (front,) = workers(server, "ServeReplica:cosmic-tta:")
    os.kill(front, signal.SIGKILL)
    until(lambda: workers(server, "ServeReplica:cosmic-tta:") not in ([], [front]), 90)


def answers(client: Client) -> bool:
    try:
        return bool(client._json("GET", "/v1/streams/s"))
    except (OSError, ServiceError):
        return False


def test_the_service_answers_as_on_one_machine_though_a_worker_is_killed(tmp_path: Path) -> None:
    given = features(samples(30))
    pictures = [photograph(number) for number in range(6)]
    image = {"Content-Type": "image/png"}
    kinds = {"method": "cosmic"}
    with served(tmp_path / "here") as client:
        assert client.post("/v1/streams", json=wanted("s", **kinds)).status_code == 201
        expected: list[Any] = [
            client.post("/v1/streams/s/predict", json={"features": [one]}).json()["predictions"] for one in given
        ]
        assert client.post("/v1/streams", json={"name": "p", "classes": CLASSES}).status_code == 201
        seen = [
            client.post("/v1/streams/p/predict", content=one, headers=image).json()["predictions"] for one in pictures
        ]
    with Running(tmp_path / "there", "--engine", "ray") as server, server.client() as there:
        there._json("POST", "/v1/streams", wanted("s", **kinds))
        told = []
        for number, one in enumerate(given):
            if number in (10, 20):
                (holder,) = workers(server.process.pid, "Holder")
                os.kill(holder, signal.SIGKILL)
            if number == 15:
                kill_front(server.process.pid)
                until(lambda: answers(there), 90)
            told.append(there._json("POST", "/v1/streams/s/predict", {"features": [one]})["predictions"])
        assert told == expected
        there.create("p", CLASSES)
        assert workers(server.process.pid, "ServeReplica:cosmic-tta-clip"), "pictures are not encoded by replicas"
        for picture, before in zip(pictures, seen, strict=True):
            answer = json.loads(there._request("POST", "/v1/streams/p/predict", picture, "image/png"))["predictions"]
            assert answer == before
        there._json("POST", "/v1/streams/s/pause")
        assert there._json("GET", "/v1/streams/s")["paused"]
        there._json("DELETE", "/v1/streams/p")
        complaints = server.stop(90)
        assert server.process.returncode == 0, complaints
    with Running(tmp_path / "there", "--engine", "ray") as server, server.client() as there:  # all is found again
        assert there._json("GET", "/v1/streams/s")["number"] == len(given) + 1
        server.stop(90)
    with served(tmp_path / "there") as client:  # and one machine goes on from there
        assert client.get("/v1/streams/s").json()["number"] == len(given) + 1


def test_encoders_get_replicas_as_their_queue_grows() -> None:
    script = Path(__file__).with_name("ray_queue.py")
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    told = json.loads(next(line for line in done.stdout.splitlines()[::-1] if line.startswith("{")))
    assert told["before"] == 1
    assert told["asked"] > 12
    assert told["equal"]
    assert told["most"] >= 3
