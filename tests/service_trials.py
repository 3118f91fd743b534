"""Trials of a running service: killed at random, many clients at once, spoiled pictures.

The tests run small ones, `tools/torture_service.py` the whole.
"""

from __future__ import annotations

import http.client
import io
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from serving import CLASSES, TEXT, Nursery, Running, features, samples, wanted

from cosmic_tta.client import Client, ServiceError
from cosmic_tta.core import Sample, Task
from cosmic_tta.guards import Guard
from cosmic_tta.methods import make_method
from cosmic_tta.session import Session

# What a client sees of a server that was killed: a broken connection, or half an answer.
BROKEN = (OSError, http.client.HTTPException, ValueError)


# Killed at random.


PATIENT = Guard(quota=1.0, places=64)  # no camera of these trials uses its quota up: every sample teaches


@dataclass
class _Fed:
    """A stream, what it was sent, what it answered, and the same stream uninterrupted beside."""

    name: str
    method: str
    given: list[Sample]
    beside: Session
    answered: int = 0
    snapshots: int = 0
    wrong: list[str] = field(default_factory=list)

    def feed(self, url: str, start: int, rng: random.Random) -> None:
        """Send one sample after the other until the server is gone; now and then ask for a snapshot."""
        stream = Client(url, timeout=20, tries=1).stream(self.name)
        try:
            for place in range(start, len(self.given)):
                told = stream.predict_features(features([self.given[place]]), source=f"camera {place % 3}")
                if told[0]["step"] != place + 1:
                    self.wrong.append(f"{self.name}: sample {place} came as step {told[0]['step']}")
                self.answered = place + 1
                if rng.random() < 0.03:
                    stream.snapshot()
                    self.snapshots += 1
        except BROKEN:
            return

    def check(self, client: Client) -> int:
        """Compare the stream with the one beside it; return how far it is."""
        told = client.stream(self.name).describe(digest=True)
        seen = int(told["seen"])
        if seen < self.answered:
            self.wrong.append(f"{self.name}: {self.answered} steps were answered, {seen} are left")
        for place in range(self.beside.seen, seen):
            self.beside.step([self.given[place]], sources=[f"camera {place % 3}"])
        if told["digest"] != self.beside.digest():
            self.wrong.append(f"{self.name}: after {seen} steps the state is not that of an uninterrupted run")
        return seen


def kills(
    folder: Path, count: int, *, seed: int = 0, longest: float = 0.5, most: int = 50_000, say: Any = None
) -> dict[str, int]:
    """Kill a server under load `count` times; return what was counted. Anything lost raises AssertionError."""
    rng = random.Random(seed)
    fed = []
    for number, method in enumerate(("bayes_means", "cosmic")):
        about = {"preset": "default", "views": 1, "seed": 0}
        task = Task(tuple(CLASSES), TEXT)
        beside = Session.create(
            folder / f"beside-{number}", method, task, make_method(method), about=about, guard=PATIENT
        )
        fed.append(_Fed(f"s{number}", method, samples(most, seed=number), beside))
    with Nursery() as nursery:
        client = nursery.start(folder / "data")
        for one in fed:
            client.create(**wanted(one.name, method=one.method, guard=asdict(PATIENT)))
        nursery.end()
        for number in range(count):
            client = nursery.start(folder / "data")
            listed = client.damaged()
            assert not listed, listed
            starts = [one.check(client) for one in fed]
            threads = [
                threading.Thread(target=one.feed, args=(nursery.url, start, random.Random(rng.random())))
                for one, start in zip(fed, starts, strict=True)
            ]
            for thread in threads:
                thread.start()
            time.sleep(rng.uniform(0.01, longest))
            nursery.end()
            for thread in threads:
                thread.join()
            if say is not None and (number + 1) % 25 == 0:
                say(f"{number + 1} kills, {sum(one.answered for one in fed)} steps answered")
            assert not any(one.wrong for one in fed), [one.wrong for one in fed]
        client = nursery.start(folder / "data")
        for one in fed:
            one.check(client)
        assert not any(one.wrong for one in fed), [one.wrong for one in fed]
        nursery.end(signal.SIGTERM)
    for one in fed:
        one.beside.close()
    answered = sum(one.answered for one in fed)
    return {"kills": count, "answered": answered, "snapshots": sum(one.snapshots for one in fed), "lost": 0}


# Many clients at once.


def load(url: str, clients: int, requests: int, streams: int, seed: int = 0) -> dict[str, float]:
    """Let clients send to streams; hold every stream's answers to a serial replay; return times in milliseconds."""
    main = Client(url)
    for number in range(streams):
        main.create(**wanted(f"load{number}", method=("bayes_means", "cosmic", "tda")[number % 3]))
    answers: list[list[tuple[int, Sample, dict[str, float]]]] = [[] for _ in range(streams)]
    seconds: list[float] = []
    problems: list[str] = []

    def work(number: int) -> None:
        stream = Client(url, timeout=60).stream(f"load{number % streams}")
        for sample in samples(requests, seed=seed + 1000 + number):
            begun = time.perf_counter()
            try:
                told = stream.predict_features(features([sample]))[0]
            except (ServiceError, *BROKEN) as error:
                problems.append(f"{type(error).__name__}: {error}")
                return
            seconds.append(time.perf_counter() - begun)
            scores = {one["label"]: one["score"] for one in told["answers"]}
            answers[number % streams].append((told["step"], sample, scores))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - begun
    assert not problems, problems[:5]
    for number, told in enumerate(answers):
        told.sort(key=lambda one: one[0])
        assert [step for step, _, _ in told] == list(range(1, len(told) + 1))
        method = make_method(("bayes_means", "cosmic", "tda")[number % 3])
        state = method.init(Task(tuple(CLASSES), TEXT))
        for step, sample, scores in told:
            expected = dict(zip(CLASSES, map(float, method.step(state, sample).scores), strict=True))
            assert scores == expected, f"stream {number}, step {step}: {scores} instead of {expected}"
    for number in range(streams):
        main.stream(f"load{number}").delete()
    times = np.sort(np.array(seconds)) * 1000
    return {
        "requests": len(times),
        "p50_ms": float(np.quantile(times, 0.5)),
        "p99_ms": float(np.quantile(times, 0.99)),
        "a_second": len(times) / whole,
    }


# Every route, by its description.

SETTINGS = """
[checks]
# What a schema cannot say (unit rows, widths that fit, pictures that are pictures) is refused after it.
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429]
"""


def by_description(url: str, token: str, folder: Path, *, examples: int, seconds: int, seed: int = 0) -> str:
    """Run schemathesis against a service; return its report. A failure raises AssertionError."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    words = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(settings), "run"]
    words += [f"{url}/openapi.json", "-H", f"Authorization: Bearer {token}", "-n", str(examples), "--seed", str(seed)]
    words += ["--max-time", str(seconds), "--request-timeout", "60", "--suppress-health-check", "all", "--no-color"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[:3000], done.stdout[-3000:], done.stderr[-2000:])
    return done.stdout


def flooded(running: Running, count: int, seed: int = 0, say: Any = None) -> dict[str, float]:
    """Send spoiled pictures; return how many were read and how much memory was taken. A 5xx raises AssertionError."""
    client = running.client()
    stream = client.create("flooded", CLASSES, aux=None)
    for _, data in sound_pictures():
        stream.predict(data, learn=False)
    before, largest, read, digest = running.memory(), 0, 0, stream.describe(digest=True)["digest"]
    begun = time.perf_counter()
    for number, (name, data) in enumerate(spoiled_pictures(count, seed)):
        try:
            stream.predict(data, learn=False, top=1)
            read += 1
        except ServiceError as error:
            if error.status >= 500:
                raise AssertionError(f"{name}: {error}") from error
        if number % 250 == 0:
            largest = max(largest, running.memory())
            if say is not None and number % 1000 == 0:
                say(f"{number} pictures, {read} read, {(largest - before) / 1e6:+.0f} MB")
    assert stream.describe(digest=True)["digest"] == digest
    whole = time.perf_counter() - begun
    stream.delete()
    return {"pictures": count, "read": read, "grown_mb": (largest - before) / 1e6, "seconds": whole}


def soak(running: Running, seconds: float, say: Any = None) -> dict[str, float]:
    """Keep a service busy in every way; return how its memory grew after the first fifth of the time."""
    client = running.client()
    pictures = [data for _, data in sound_pictures()]
    rng, begun, warm, memory, requests = random.Random(0), time.monotonic(), 0, 0, 0
    streams = [client.create(**wanted(f"soak{n}", method=m)) for n, m in enumerate(("bayes_means", "cosmic", "tda"))]
    seen = client.create("soak", CLASSES)
    given = samples(500)
    while (passed := time.monotonic() - begun) < seconds:
        stream = rng.choice(streams)
        told = stream.predict_features(features(rng.sample(given, rng.randrange(1, 8))), why=rng.random() < 0.1)
        if rng.random() < 0.2:
            stream.label({one["step"]: rng.choice(CLASSES) for one in told})
        if rng.random() < 0.3:
            seen.predict(rng.choice(pictures))
        if rng.random() < 0.05:
            try:
                seen.predict(next(spoiled_pictures(1, rng.randrange(1 << 30)))[1])
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


# Spoiled pictures.

SIZES = ((64, 48), (7, 130), (33, 33))
FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PNG", {}),
    ("JPEG", {"quality": 80}),
    ("JPEG", {"progressive": True}),
    ("GIF", {}),
    ("WEBP", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("PPM", {}),
)


def sound_pictures() -> list[tuple[str, bytes]]:
    """Pictures of every format and odd modes that can be read."""
    rng = np.random.default_rng(0)
    pictures = []
    for number, (name, options) in enumerate(FORMATS):
        width, height = SIZES[number % len(SIZES)]
        pixels = rng.integers(256, size=(height, width, 3), dtype=np.uint8)
        pictures.append((f"{name} {number}", encoded_picture(Image.fromarray(pixels), name, **options)))
    grey = Image.fromarray(rng.integers(256, size=(20, 30), dtype=np.uint8))
    pictures += [(f"PNG {mode}", encoded_picture(grey.convert(mode), "PNG")) for mode in ("1", "L", "LA", "P", "RGBA")]
    pictures.append(("PNG I;16", encoded_picture(Image.fromarray(np.full((9, 9), 40_000, np.uint16)), "PNG")))
    pictures.append(("JPEG CMYK", encoded_picture(grey.convert("CMYK"), "JPEG")))
    frames = [grey.convert("P"), grey.rotate(90).convert("P")]
    pictures.append(("GIF animated", encoded_picture(frames[0], "GIF", save_all=True, append_images=frames[1:])))
    return pictures


def encoded_picture(picture: Image.Image, name: str, **options: Any) -> bytes:
    """A picture as a file."""
    file = io.BytesIO()
    picture.save(file, name, **options)
    return file.getvalue()


def png(width: int, height: int, *, bits: int = 8, colour: int = 2, data: bytes = b"\x00") -> bytes:
    """A PNG that says what it is told to say, its checksums right."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def odd_pictures() -> list[tuple[str, bytes]]:
    """Files made to do harm: bombs, lies about sizes, texts, nothing at all."""
    odd = [
        ("nothing", b""),
        ("one byte", b"\x00"),
        ("zeros", bytes(5000)),
        ("text", b"This is no picture at all.\n" * 20),
        ("HTML", b"<html><script>alert(1)</script></html>"),
        ("SVG", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
        ("PostScript", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n"),
        ("PDF", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n"),
        ("ZIP", b"PK\x03\x04" + bytes(100)),
        ("a bomb of 13000 squared", png(13_000, 13_000, bits=1, colour=0, data=bytes(13_000 * 1626))),
        ("a bomb of 5000 squared in RGBA", png(5001, 5000, colour=6, data=bytes(100_000))),
        ("no width", png(0, 10)),
        ("no height", png(10, 0)),
        ("a size of billions", png(2**31 - 1, 2**31 - 1)),
        ("a size past all", png(2**32 - 1, 1)),
        ("a long line", png(25_000_001, 1)),
        ("unknown bits", png(10, 10, bits=3)),
        ("unknown colour", png(10, 10, colour=5)),
        ("too little data", png(100, 100, data=bytes(10))),
        ("too much data", png(4, 4, data=bytes(1_000_000))),
        ("a BMP of billions", b"BM" + struct.pack("<IHHIIiiHHI", 54, 0, 0, 54, 40, 2**30, 2**30, 1, 24, 0) + bytes(40)),
        ("a GIF of 65535 squared", b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b",\x00" * 20),
        ("a PPM of millions", b"P6 99999 99999 255\n" + bytes(100)),
        ("a PPM of words", b"P6 a b c\n"),
        ("a head of JPEG", b"\xff\xd8\xff\xe0"),
        ("a head of TIFF", b"II*\x00\x08\x00\x00\x00"),
        ("a TIFF that loops", b"II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"),
        ("a head of WEBP", b"RIFF\x24\x00\x00\x00WEBPVP8 "),
    ]
    for _, sound in sound_pictures():
        odd.append((f"half of {len(sound)} bytes", sound[: len(sound) // 2]))
        odd.append((f"the wrong head on {len(sound)} bytes", b"\x89PNG\r\n\x1a\n" + sound[8:]))
        odd.append((f"a head missing from {len(sound)} bytes", sound[16:]))
    return odd


def spoiled_pictures(count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Sound pictures, spoiled in `count` ways: bits turned, bytes cut out, doubled, swapped between files."""
    rng = random.Random(seed)
    sound = [data for _, data in sound_pictures()]
    for number in range(count):
        data = bytearray(rng.choice(sound))
        how = rng.choice((_turn, _turn, _turn_head, _cut, _cut_out, _double, _swap))
        how(data, rng, sound)
        yield f"{how.__name__[1:]} {number}", bytes(data)


def _turn(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 3, 20, 200))):
        data[rng.randrange(len(data))] = rng.randrange(256)


def _turn_head(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(min(60, len(data)))] = rng.choice((0, 1, 127, 128, 255))


def _cut(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data)) :]


def _cut_out(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 50)]


def _double(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.randrange(1, 500)] * rng.choice((1, 10))


def _swap(data: bytearray, rng: random.Random, sound: Sequence[bytes]) -> None:
    other = rng.choice(sound)
    start = rng.randrange(min(len(data), len(other)))
    data[start:] = other[start:]


def temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder for a trial."""
    return tempfile.TemporaryDirectory(prefix="cosmic-trial-")
