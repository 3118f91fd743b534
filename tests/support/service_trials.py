"""Trials of a running service: random kills, many clients, its OpenAPI description, corrupted images, long load.

The tests run short trials, `tools/torture_service.py` long ones.
"""

from __future__ import annotations

import http.client
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core.types import Sample, Task
from cosmic_tta.methods import make_method
from cosmic_tta.service.client import Client, ServiceError
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.session import Session
from tests.support.corrupted_images import corrupted_images, valid_images
from tests.support.serving import CLASSES, TEXT, ForkingServer, Running, features, samples, wanted

# What a client sees of a killed server: a broken connection, or a truncated response.
CONNECTION_ERRORS = (OSError, http.client.HTTPException, ValueError)


# Random kills.


ADMIT_ALL = AdmissionPolicy(quota=1.0, slots=64)  # no source of these trials exceeds its quota


@dataclass
class _ServedStream:
    """A served stream, its samples, and an uninterrupted session with the same samples."""

    name: str
    method: str
    samples: list[Sample]
    reference: Session
    answered: int = 0
    snapshots: int = 0
    errors: list[str] = field(default_factory=list)

    def feed(self, url: str, start: int, rng: random.Random) -> None:
        """Send one sample after the other until the server is killed, with occasional snapshots."""
        stream = Client(url, timeout=20, max_attempts=1).stream(self.name)
        try:
            for index in range(start, len(self.samples)):
                reply = stream.predict_features(features([self.samples[index]]), source=f"camera {index % 3}")
                if reply[0]["step"] != index + 1:
                    self.errors.append(f"{self.name}: sample {index} came as step {reply[0]['step']}")
                self.answered = index + 1
                if rng.random() < 0.03:
                    stream.snapshot()
                    self.snapshots += 1
        except CONNECTION_ERRORS:
            return

    def check(self, client: Client) -> int:
        """Compare the stream with the reference session; return its number of samples."""
        reply = client.stream(self.name).describe(digest=True)
        seen = int(reply["seen"])
        if seen < self.answered:
            self.errors.append(f"{self.name}: {self.answered} steps were answered, {seen} are left")
        for index in range(self.reference.seen, seen):
            self.reference.step([self.samples[index]], sources=[f"camera {index % 3}"])
        if reply["digest"] != self.reference.digest():
            self.errors.append(f"{self.name}: after {seen} steps the state differs from an uninterrupted run")
        return seen


def kills(
    folder: Path, count: int, *, seed: int = 0, longest: float = 0.5, most: int = 50_000, say: Any = None
) -> dict[str, int]:
    """Kill a server under load `count` times; return counts. A lost step raises AssertionError."""
    rng = random.Random(seed)
    streams_served = []
    for number, method in enumerate(("bayes_means", "cosmic")):
        metadata = {"preset": "default", "views": 1, "seed": 0}
        task = Task(tuple(CLASSES), TEXT)
        reference = Session.create(
            folder / f"reference-{number}", method, task, make_method(method), metadata=metadata, guard=ADMIT_ALL
        )
        streams_served.append(_ServedStream(f"s{number}", method, samples(most, seed=number), reference))
    with ForkingServer() as server:
        client = server.start(folder / "data")
        for one in streams_served:
            client.create(**wanted(one.name, method=one.method, guard=asdict(ADMIT_ALL)))
        server.end()
        for number in range(count):
            client = server.start(folder / "data")
            listed = client.damaged()
            assert not listed, listed
            starts = [one.check(client) for one in streams_served]
            threads = [
                threading.Thread(target=one.feed, args=(server.url, start, random.Random(rng.random())))
                for one, start in zip(streams_served, starts, strict=True)
            ]
            for thread in threads:
                thread.start()
            time.sleep(rng.uniform(0.01, longest))
            server.end()
            for thread in threads:
                thread.join()
            if say is not None and (number + 1) % 25 == 0:
                say(f"{number + 1} kills, {sum(one.answered for one in streams_served)} steps answered")
            assert not any(one.errors for one in streams_served), [one.errors for one in streams_served]
        client = server.start(folder / "data")
        for one in streams_served:
            one.check(client)
        assert not any(one.errors for one in streams_served), [one.errors for one in streams_served]
        server.end(signal.SIGTERM)
    for one in streams_served:
        one.reference.close()
    answered = sum(one.answered for one in streams_served)
    return {"kills": count, "answered": answered, "snapshots": sum(one.snapshots for one in streams_served), "lost": 0}


# Many clients.


def load(url: str, clients: int, requests: int, streams: int, seed: int = 0) -> dict[str, float]:
    """Let many clients send samples; compare the predictions with a serial replay; return times in milliseconds."""
    main = Client(url)
    for number in range(streams):
        main.create(**wanted(f"load{number}", method=("bayes_means", "cosmic", "tda")[number % 3]))
    answers: list[list[tuple[int, Sample, dict[str, float]]]] = [[] for _ in range(streams)]
    seconds: list[float] = []
    problems: list[str] = []

    def work(number: int) -> None:
        stream = Client(url, timeout=60).stream(f"load{number % streams}")
        for sample in samples(requests, seed=seed + 1000 + number):
            start_time = time.perf_counter()
            try:
                reply = stream.predict_features(features([sample]))[0]
            except (ServiceError, *CONNECTION_ERRORS) as error:
                problems.append(f"{type(error).__name__}: {error}")
                return
            seconds.append(time.perf_counter() - start_time)
            scores = {one["label"]: one["score"] for one in reply["answers"]}
            answers[number % streams].append((reply["step"], sample, scores))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start_time = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - start_time
    assert not problems, problems[:5]
    for number, reply in enumerate(answers):
        reply.sort(key=lambda one: one[0])
        assert [step for step, _, _ in reply] == list(range(1, len(reply) + 1))
        method = make_method(("bayes_means", "cosmic", "tda")[number % 3])
        state = method.init(Task(tuple(CLASSES), TEXT))
        for step, sample, scores in reply:
            expected = dict(zip(CLASSES, map(float, method.step(state, sample).scores), strict=True))
            assert scores == expected, f"stream {number}, step {step}: {scores} instead of {expected}"
    for number in range(streams):
        main.stream(f"load{number}").delete()
    times = np.sort(np.array(seconds)) * 1000
    return {
        "requests": len(times),
        "p50_ms": float(np.quantile(times, 0.5)),
        "p99_ms": float(np.quantile(times, 0.99)),
        "per_second": len(times) / whole,
    }


# Every route, by its OpenAPI description.

SCHEMATHESIS_SETTINGS = """
[checks]
# A schema cannot say that rows are unit rows, that widths fit, or that bytes are an image.
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429]
"""


def conformance(url: str, token: str, folder: Path, *, examples: int, seconds: int, seed: int = 0) -> str:
    """Run schemathesis against a service; return its report. A failure raises AssertionError."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SCHEMATHESIS_SETTINGS)
    words = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(settings), "run"]
    words += [f"{url}/openapi.json", "-H", f"Authorization: Bearer {token}", "-n", str(examples), "--seed", str(seed)]
    words += ["--max-time", str(seconds), "--request-timeout", "60", "--suppress-health-check", "all", "--no-color"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[:3000], done.stdout[-3000:], done.stderr[-2000:])
    return done.stdout


def corrupted(running: Running, count: int, seed: int = 0, say: Any = None) -> dict[str, float]:
    """Send corrupted images; return how many were read and how memory grew. A 5xx raises AssertionError."""
    client = running.client()
    stream = client.create("corrupted", CLASSES, aux=None)
    for _, data in valid_images():
        stream.predict(data, learn=False)
    before, largest, read, digest = running.memory(), 0, 0, stream.describe(digest=True)["digest"]
    start_time = time.perf_counter()
    for number, (name, data) in enumerate(corrupted_images(count, seed)):
        try:
            stream.predict(data, learn=False, top=1)
            read += 1
        except ServiceError as error:
            if error.status >= 500:
                raise AssertionError(f"{name}: {error}") from error
        if number % 250 == 0:
            largest = max(largest, running.memory())
            if say is not None and number % 1000 == 0:
                say(f"{number} images, {read} read, {(largest - before) / 1e6:+.0f} MB")
    assert stream.describe(digest=True)["digest"] == digest
    whole = time.perf_counter() - start_time
    stream.delete()
    return {"images": count, "read": read, "grown_mb": (largest - before) / 1e6, "seconds": whole}


def soak(running: Running, seconds: float, say: Any = None) -> dict[str, float]:
    """Keep a service busy with all kinds of requests; return how memory grew after the first fifth of the time."""
    client = running.client()
    images = [data for _, data in valid_images()]
    rng, start_time, warm, memory, requests = random.Random(0), time.monotonic(), 0, 0, 0
    streams = [client.create(**wanted(f"soak{n}", method=m)) for n, m in enumerate(("bayes_means", "cosmic", "tda"))]
    seen = client.create("soak", CLASSES)
    given = samples(500)
    while (passed := time.monotonic() - start_time) < seconds:
        stream = rng.choice(streams)
        reply = stream.predict_features(features(rng.sample(given, rng.randrange(1, 8))), why=rng.random() < 0.1)
        if rng.random() < 0.2:
            stream.label({one["step"]: rng.choice(CLASSES) for one in reply})
        if rng.random() < 0.3:
            seen.predict(rng.choice(images))
        if rng.random() < 0.05:
            try:
                seen.predict(next(corrupted_images(1, rng.randrange(1 << 30)))[1])
            except ServiceError as error:
                if error.status >= 500:
                    raise
        if rng.random() < 0.01:
            rng.choice((stream.snapshot, stream.reset, client.streams, client.metrics))()
        requests += 1
        if requests % 200 == 0:
            now = running.memory()
            warm = warm or (now if passed > seconds / 5 else 0)
            memory = now
            if say is not None and requests % 2000 == 0:
                say(f"{passed:.0f} s, {requests} requests, {now / 1e6:.0f} MB")
    return {"seconds": seconds, "requests": requests, "mb": memory / 1e6, "growth": memory / (warm or memory) - 1}
