"""The service's parts by themselves: lanes, batches, decoding processes, fetched addresses, slow clients."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import CLASSES, TEXT, rows, samples
from tiny import TinyEncoder, picture

from cosmic_tta.core import Sample, Task
from cosmic_tta.errors import InputError
from cosmic_tta.loading import Recipe
from cosmic_tta.methods import make_method
from cosmic_tta.preprocessing import Preprocessing
from cosmic_tta.service.decoding import Decoders
from cosmic_tta.service.encoding import Batcher, Encoders
from cosmic_tta.service.fetching import Fetcher, public
from cosmic_tta.service.gate import Gate
from cosmic_tta.service.lanes import Lane
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.refusals import Refused
from cosmic_tta.service.settings import Settings
from cosmic_tta.session import Session
from cosmic_tta.views import Views

pytestmark = pytest.mark.pathless
RECIPE = Recipe(Views(2, 0), Preprocessing((16, 16), 16), Preprocessing((8, 8), 8))


def png(number: int = 0) -> bytes:
    file = io.BytesIO()
    picture(number).save(file, "PNG")
    return file.getvalue()


# Lanes.


async def with_lane(folder: Path, use: Callable[[Lane, list[int]], Awaitable[None]], **bounds: Any) -> None:
    session = Session.create(folder / "s", "s", Task(tuple(CLASSES), TEXT), make_method("bayes_means"))
    with session, ThreadPoolExecutor(2) as threads:
        lane = Lane("id", session, threads, **{"queue": 100, "patience": 20.0, **bounds})
        groups: list[int] = []
        lane.groups = groups.append
        await use(lane, groups)
        await lane.close()


def test_steps_that_wait_together_are_written_together_in_their_order(tmp_path: Path) -> None:
    given = samples(40)

    async def use(lane: Lane, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(lane.ask(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        asked = [asyncio.create_task(lane.step([sample], f"camera {n}")) for n, sample in enumerate(given)]
        await asyncio.sleep(0.05)
        blocked.set()
        answers = await asyncio.gather(*asked)
        assert await first
        assert groups == [40]
        assert [one.answered[0].number for one in answers] == list(range(1, 41))
        assert lane.session.sources["camera 7"] == [8, 1]
        method = make_method("bayes_means")
        state = method.init(Task(tuple(CLASSES), TEXT))
        for sample, answer in zip(given, answers, strict=True):
            assert np.array_equal(method.step(state, sample).scores, answer.answered[0].prediction.scores)

    asyncio.run(with_lane(tmp_path, use))


def test_one_that_is_refused_leaves_those_beside_it_alone(tmp_path: Path) -> None:
    good = samples(6)
    wrong = Sample(rows(1, 7), good[0].aux)

    async def use(lane: Lane, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(lane.ask(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        given = [good[0], good[1], wrong, good[2]]
        asked = [asyncio.create_task(lane.step([sample])) for sample in given]
        await asyncio.sleep(0.05)
        blocked.set()
        told = await asyncio.gather(*asked, return_exceptions=True)
        await first
        assert isinstance(told[2], InputError)
        numbers = [one.answered[0].number for one in told if not isinstance(one, BaseException)]
        assert numbers == [1, 2, 3]
        assert lane.session.seen == 3

    asyncio.run(with_lane(tmp_path, use))


def test_a_lane_that_is_full_says_when_to_come_back(tmp_path: Path) -> None:
    async def use(lane: Lane, groups: list[int]) -> None:
        with lane.admitted(), lane.admitted():
            with pytest.raises(Refused, match="as many as may") as refused, lane.admitted():
                pass
            assert refused.value.status == 429
            assert int(refused.value.headers["Retry-After"]) >= 1
            with lane.admitted(spare=1):
                assert lane.inside == 3
        with lane.admitted():
            assert lane.inside == 1

    asyncio.run(with_lane(tmp_path, use, queue=2))


def test_who_waits_too_long_was_not_begun(tmp_path: Path) -> None:
    async def use(lane: Lane, groups: list[int]) -> None:
        blocked = threading.Event()
        first = asyncio.create_task(lane.ask(lambda session: blocked.wait(5)))
        await asyncio.sleep(0.05)
        with pytest.raises(Refused, match="not begun") as refused:
            await lane.step(samples(1))
        assert refused.value.status == 429
        blocked.set()
        assert await first  # what was begun is seen through
        assert lane.session.seen == 0

    asyncio.run(with_lane(tmp_path, use, patience=0.2))


def test_a_lane_that_closes_finishes_what_waits_and_takes_nothing_more(tmp_path: Path) -> None:
    async def use(lane: Lane, groups: list[int]) -> None:
        waiting = [asyncio.create_task(lane.step([sample])) for sample in samples(5)]
        await asyncio.sleep(0)
        await lane.close(gone=True)
        assert [one.answered[0].number for one in await asyncio.gather(*waiting)] == [1, 2, 3, 4, 5]
        with pytest.raises(Refused) as refused:
            await lane.step(samples(1))
        assert refused.value.status == 404

    asyncio.run(with_lane(tmp_path, use))


# Batches.


def test_pictures_of_several_streams_are_encoded_together() -> None:
    encoder = TinyEncoder()
    pixels = np.random.default_rng(0).integers(256, size=(20, 16, 16, 3), dtype=np.uint8)

    async def use() -> list[Any]:
        batcher = Batcher(encoder, batch=8, wait_ms=20)
        try:
            return await asyncio.gather(*(batcher.encode(one[None]) for one in pixels), batcher.encode(pixels[:3]))
        finally:
            await batcher.close()

    found = asyncio.run(use())
    assert max(shape[0] for shape in encoder.batches) <= 8
    assert len(encoder.batches) == 3
    assert np.allclose(np.concatenate(found[:20]), encoder.encode(pixels), atol=1e-6)
    assert np.allclose(found[20], encoder.encode(pixels[:3]), atol=1e-6)


def test_an_encoder_that_fails_fails_those_who_wait_and_goes_on() -> None:
    encoder = TinyEncoder()

    async def use() -> None:
        batcher = Batcher(encoder, batch=8, wait_ms=0)
        with pytest.raises(ValueError, match="reshape|matmul|mismatch"):
            await batcher.encode(np.zeros((1, 4, 4, 3), np.uint8))
        assert (await batcher.encode(np.ones((1, 16, 16, 3), np.uint8))).shape == (1, 8)
        await batcher.close()

    asyncio.run(use())


def test_an_encoder_is_loaded_once_however_many_ask() -> None:
    async def use() -> None:
        encoders = Encoders(Settings(threads=1))
        found = await asyncio.gather(*(encoders.clip("mini:clip") for _ in range(5)))
        assert len({id(one) for one in found}) == 1
        with pytest.raises(InputError, match="--encoder"):
            await encoders.clip("onnx:/etc")
        await encoders.close()

    asyncio.run(use())


# Decoding.


def test_a_picture_is_decoded_in_another_process_as_it_is_here() -> None:
    async def use() -> None:
        decoders = Decoders(Settings(workers=1))
        one = await decoders.decode(png(), RECIPE, "it")
        here = picture(0)
        assert one.clip is not None
        assert one.clip.shape == (2, 16, 16, 3)
        assert np.array_equal(one.clip[0], RECIPE.clip.pixels(here))
        assert RECIPE.aux is not None
        assert np.array_equal(one.aux, RECIPE.aux.pixels(here))  # type: ignore[arg-type]
        many = await asyncio.gather(*(decoders.decode(png(n), RECIPE, "it") for n in range(8)))
        assert len(many) == 8
        await decoders.close()

    asyncio.run(use())


HELLO = "import sys, json, struct; h = b'{}'; o = sys.stdout.buffer; o.write(struct.pack('<II', 2, 0) + h); o.flush();"
CULPRITS = {
    "hangs": "import time; time.sleep(60)",
    "ends": "sys.exit(3)",
    "is killed": "import os; os.kill(os.getpid(), 11)",
    "talks nonsense": "o.write(b'\\xff' * 100); o.flush(); sys.stdin.read()",
}


@pytest.mark.parametrize("code", CULPRITS.values(), ids=CULPRITS)
def test_a_decoder_that_misbehaves_is_killed_and_replaced(code: str) -> None:
    async def use() -> None:
        decoders = Decoders(Settings(workers=1, decode_seconds=0.5), (sys.executable, "-c", HELLO + code))
        begun = time.monotonic()
        for number in (1, 2):
            with pytest.raises(Refused) as refused:
                await decoders.decode(png(), RECIPE, "it")
            assert refused.value.status == 422
            assert decoders.killed == number
        assert time.monotonic() - begun < 20
        await decoders.close()

    asyncio.run(use())


def test_sizes_are_refused_before_a_process_is_asked() -> None:
    async def use() -> None:
        decoders = Decoders(Settings(picture_bytes=10), ("/no/such/program",))
        for data, status in ((b"", 422), (b"x" * 11, 413)):
            with pytest.raises(Refused) as refused:
                await decoders.decode(data, RECIPE, "it")
            assert refused.value.status == status
        await decoders.close()

    asyncio.run(use())


# Slow bodies.


def test_a_slow_body_is_cut_off() -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the application must not see it")

    async def use() -> None:
        gate = Gate(never, Settings(body_seconds=0.3), Metrics(), lambda name: None)
        sent: list[Any] = []

        async def drip() -> dict[str, Any]:
            await asyncio.sleep(0.05)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": [(b"host", b"localhost")]}
        begun = time.monotonic()
        await gate(scope, drip, send)
        assert time.monotonic() - begun < 2
        assert sent[0]["status"] == 408
        assert json.loads(sent[1]["body"])["error"] == "too_slow"

    asyncio.run(use())


def test_too_much_at_once_is_told_to_come_back() -> None:
    async def use() -> None:
        async def held(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(0.3)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        gate = Gate(held, Settings(bodies_bytes=1000), Metrics(), lambda name: None)
        statuses: list[int] = []

        async def one() -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"x" * 600, "more_body": False}

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": [(b"host", b"localhost")]}
            await gate(scope, receive, send)

        await asyncio.gather(one(), one())
        await one()  # what was held is free again
        assert statuses == [429, 200, 200]

    asyncio.run(use())


# Addresses.

INSIDE = [
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "fe80::1",
    "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",     "2001:db8::1", "::127.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_a_host_that_leads_inside_is_not_fetched_from(address: str) -> None:
    def connect(*_: Any, **__: Any) -> socket.socket:
        raise AssertionError("no connection may be made")

    assert not public(address)
    for found in ([address], ["93.184.216.34", address]):
        fetcher = Fetcher(Settings(fetch_from=("pictures.example",)), lambda host, port, f=found: f, connect)  # type: ignore[misc]
        with pytest.raises(Refused) as refused:
            fetcher.fetch("http://pictures.example/a.png")
        assert refused.value.status == 403


TRICKS = [
    "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/",
    "http://127.1/", "http://169.254.169.254/latest/meta-data/", "http://evil.example/", "http://pictures.example.evil.example/",
    "http://pictures.example@evil.example/", "http://evil.example#@pictures.example/", "http://evil.example\\@pictures.example/",
    "http://user:secret@pictures.example/", "http://pictures.example:22/", "http://pictures.example:6379/", "https://pictures.example:80/",
    "ftp://pictures.example/", "file:///etc/passwd", "gopher://pictures.example/", "data:image/png;base64,AAAA", "jar:http://pictures.example!/",
    "//pictures.example/a", "pictures.example/a", "http:///a", "http://pictures.example:99999/", "http://pictures.example:x/",
    "http://[::1/", "http://pictures.example/a b", "http://pictures.example/\r\nHost: evil", "http://pictures.example/\x00",
    "http://pıctures.example/", "http://pictures.example%2eevil.example/", "http://" + "a" * 3000 + "/", "HTTP://127.0.0.1/",
    "",
]  # fmt: skip


@pytest.mark.parametrize("url", TRICKS)
def test_an_address_with_a_trick_in_it_is_not_fetched(url: str) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing may be looked up")

    with pytest.raises(Refused) as refused:
        Fetcher(Settings(fetch_from=("pictures.example",)), resolve).fetch(url)
    assert refused.value.status in (403, 422)


class _Pictures(BaseHTTPRequestHandler):
    """A small server beside: what it does is in the path."""

    def do_GET(self) -> None:
        asked = self.path.strip("/")
        if asked.startswith("to-"):
            self.send_response(302)
            self.send_header("Location", {"to-inside": "http://127.0.0.1/x", "to-self": "/to-self"}.get(asked, "/png"))
            self.end_headers()
            return
        self.send_response(404 if asked == "none" else 200)
        self.end_headers()
        if asked == "png":
            self.wfile.write(png())
        elif asked == "endless":
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                pass
        elif asked == "slow":
            try:
                for _ in range(100):
                    self.wfile.write(b"x")
                    self.wfile.flush()
                    time.sleep(0.1)
            except OSError:
                pass

    def log_message(self, *_: Any) -> None:
        pass


def test_what_is_fetched_comes_from_the_address_that_was_checked() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Pictures)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    looked_up: list[str] = []
    connected: list[Any] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["93.184.216.34"] if len(looked_up) == 1 or host == "pictures.example" else ["127.0.0.1"]

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        return socket.create_connection(("127.0.0.1", server.server_port), timeout)

    try:
        settings = Settings(fetch_from=("pictures.example",), picture_bytes=1 << 20, fetch_seconds=1.0)
        fetcher = Fetcher(settings, resolve, connect)
        assert fetcher.fetch("http://pictures.example/png") == png()
        assert connected == [("93.184.216.34", 80)]
        assert looked_up == ["pictures.example"]
        assert fetcher.fetch("http://pictures.example/to-png") == png()
        for path, status in (("to-inside", 403), ("to-self", 422), ("none", 422), ("endless", 413), ("slow", 422)):
            begun = time.monotonic()
            with pytest.raises(Refused) as refused:
                fetcher.fetch(f"http://pictures.example/{path}")
            assert refused.value.status == status, path
            assert time.monotonic() - begun < 5
    finally:
        server.shutdown()
        server.server_close()
