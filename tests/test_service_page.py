"""What the page is told, and how: routes, live events, small pictures. The page itself is in test_page_browser.py."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import CLASSES, Running, features, photograph, rows, samples, served, wanted
from starlette.testclient import TestClient

from cosmic_tta.core import Sample
from cosmic_tta.ops import unit
from cosmic_tta.service.page import files
from cosmic_tta.service.page.events import QUEUE, Events, EventStream
from cosmic_tta.service.page.thumbnails import Thumbnails, fingerprint
from cosmic_tta.service.settings import Settings

Json = dict[str, Any]
pytestmark = pytest.mark.pathless
TOKEN = "a-token-of-more-than-sixteen"


def show(service: TestClient, stream: str, numbers: range, **query: Any) -> None:
    for number in numbers:
        answer = service.post(f"/v1/streams/{stream}/predict", content=photograph(number), params=query,
                              headers={"Content-Type": "image/png"})  # fmt: skip
        assert answer.status_code == 200, answer.text


def get(service: TestClient, path: str) -> Json:
    answer = service.get(f"/v1/{path}")
    assert answer.status_code == 200, answer.text
    told: Json = answer.json()
    return told


def test_every_method_is_told_of(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        for method in ("bayes_means", "cosmic", "tda", "dmn", "zero_shot"):
            is_told_of(service, method)


def is_told_of(service: TestClient, method: str) -> None:
    service.post("/v1/streams", json={"name": method, "classes": [*CLASSES, "dog"], "method": method})
    assert get(service, f"streams/{method}/last") == {"answer": None}
    show(service, method, range(12), source="roof")
    service.post(
        f"/v1/streams/{method}/labels", json={"labels": [{"step": 3, "label": "cat"}, {"step": 4, "label": "dog"}]}
    )
    told = get(service, f"streams/{method}/overview")
    assert told["curves"]["step"] == list(range(1, 13))
    assert told["curves"]["labelled"] == [3, 4]
    assert told["sources"] == [{"name": "roof", "first": 1, "steps": 12}]
    assert {one["number"] for one in told["unsure"]} == set(range(1, 13)) - {3, 4}
    margins = [one["margin"] for one in told["unsure"]]
    assert margins == sorted(margins)
    assert told["alarms"] == []
    assert set(told["signals"]) == {"drift", "agreement", "variety", "entropy"}
    assert told["not_learned"] == {"paused": 0, "duplicate": 0, "quota": 0}
    last = get(service, f"streams/{method}/last")["answer"]
    assert last["step"] == 12
    assert bool(last["hyper_classes"]) == (method == "cosmic")
    held = get(service, f"streams/{method}/memory")
    pictures = [step for one in held["classes"] for step in one["pictures"]]
    if method == "zero_shot":
        assert held["memories"] == []
    else:
        assert sum(one["held"][0] for one in held["classes"]) == len(set(pictures)) > 3
        assert held["classes"][0]["answered"] == max(one["answered"] for one in held["classes"])
    small = service.get(f"/v1/streams/{method}/thumbnails/3")
    assert small.headers["content-type"] == "image/jpeg"
    assert small.content[:2] == b"\xff\xd8"
    assert service.get(f"/v1/streams/{method}/thumbnails/13").status_code == 404
    near = get(service, f"streams/{method}/kin?label=cat")
    assert near["classes"][0] == "cat"
    assert service.get(f"/v1/streams/{method}/kin?label=cow").status_code == 422


def test_accuracy_is_drawn_against_zero_shot_as_the_monitor_counts_it(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted())
        service.post("/v1/streams/s/predict", json={"features": features(samples(60))})
        labels = [{"step": step, "label": CLASSES[step % 4]} for step in range(1, 61, 2)]
        service.post("/v1/streams/s/labels", json={"labels": labels})
        told, plain = get(service, "streams/s/overview"), get(service, "streams/s")["monitor"]
        assert told["curves"]["accuracy"][-1] == pytest.approx(plain["accuracy"], abs=1e-4)
        assert told["curves"]["zero_shot"][-1] == pytest.approx(plain["zero_shot_accuracy"], abs=1e-4)
        assert len(told["curves"]["accuracy"]) == 30
        wrong = [one for one in plain["confusions"] if one["label"] != one["answer"]]
        assert sum(one["count"] for one in told["confusions"]) <= sum(one["count"] for one in wrong)
        assert told["confusions"][0]["count"] == max(one["count"] for one in wrong)


def test_what_is_told_stays_small_with_a_thousand_classes(tmp_path: Path) -> None:
    names = [f"class {number}" for number in range(1000)]
    text = rows(1000, seed=3)
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted(classes=names, text=text.tolist(), method="cosmic"))
        given = [Sample(unit(text[k] + 0.1 * rows(1, seed=k)[0])[None]) for k in range(200)]
        for start in range(0, 200, 50):
            service.post("/v1/streams/s/predict?top=1", json={"features": features(given[start : start + 50])})
        for path in ("overview", "memory?count=12", "last"):
            answer = service.get(f"/v1/streams/s/{path}")
            assert len(answer.content) < 40_000, path
        found = get(service, "streams/s/memory?find=CLASS 99&count=100")
        assert {one["name"] for one in found["classes"]} == {"class 99", *(f"class 99{n}" for n in range(10))}
        assert get(service, "streams/s/memory?offset=990")["found"] == 1000
        assert len(get(service, "watch")["streams"][0]) < 20


def test_alarms_and_guards_are_told(tmp_path: Path) -> None:
    """The same picture again, and then a domain in which every class has moved the same way."""
    rng = np.random.default_rng(0)
    text = rows(10, 32, seed=5)
    kinds = rng.integers(10, size=480)
    moved = np.where(np.arange(480)[:, None] < 300, 0.0, 0.15 * rng.standard_normal(32)[None])
    clip = unit((text[kinds] + moved + 0.08 * rng.standard_normal((480, 32))).astype(np.float32))
    with served(tmp_path / "data") as service:
        names = [f"class {k}" for k in range(10)]
        service.post("/v1/streams", json=wanted(classes=names, text=text.tolist()))
        for start in range(0, 300, 60):
            given = features([Sample(row[None]) for row in clip[start : start + 60]])
            assert service.post("/v1/streams/s/predict?top=1", json={"features": given}).status_code == 200
        assert get(service, "streams/s/overview")["alarms"] == []
        service.post("/v1/streams/s/predict", json={"features": features([Sample(clip[:1])] * 3)})
        for start in range(300, 480, 60):
            given = features([Sample(row[None]) for row in clip[start : start + 60]])
            service.post("/v1/streams/s/predict?top=1", json={"features": given})
        told = get(service, "streams/s/overview")
        (alarm,) = told["alarms"]
        assert alarm["kind"] == "drift"
        assert "the pictures changed" in alarm["detail"]
        assert told["signals"]["drift"] > 0.045
        assert told["not_learned"]["duplicate"] >= 2
        assert get(service, "watch")["streams"][0]["alarms"] == ["drift"]
        assert get(service, "streams/s")["alarms"] == told["alarms"]


# Files.


def test_the_page_comes_without_a_token_and_tells_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "data", Settings(token=TOKEN)) as service:
        page = service.get("/")
        assert page.headers["content-type"].startswith("text/html")
        for name in files.KINDS:
            assert service.get(f"/page/{name}").status_code == 200
        for path in ("/v1/watch", "/v1/streams/s/overview", "/v1/streams/s/events", "/v1/streams/s/thumbnails/1"):
            assert service.get(path).status_code == 401
        for path in ("/page/routes.py", "/page/..%2Froutes.py", "/page/", "/page/plotly.js/x"):
            assert service.get(path).status_code in (401, 404)


def test_the_policy_is_strict_and_no_file_names_another_host(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        policy = service.get("/").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "eval" not in policy
        assert "trusted-types 'none'" in policy
        assert not re.search(r"https?:|\*|//", policy)
        for name in files.KINDS:
            text = service.get(f"/page/{name}").text.replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|document\.write|eval\(", text), name


def test_plotly_is_served_from_its_wheel_or_missed_kindly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path / "data") as service:
        script = service.get("/page/plotly.js", headers={"Accept-Encoding": "gzip"})
        assert script.headers["content-encoding"] == "gzip"
        assert "plotly.js v" in script.text[:200]
        assert service.get("/page/plotly.js", headers={"Accept-Encoding": "identity"}).text == script.text
        assert get(service, "watch")["plotly"]
        monkeypatch.setattr(files, "plotly_file", lambda: None)
        missed = service.get("/page/plotly.js")
        assert missed.status_code == 404
        assert "pip install" in missed.json()["hint"]
        assert not get(service, "watch")["plotly"]


# Small pictures.


def test_small_pictures_are_found_by_features_after_a_roll_back_an_undo_and_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Thumbnails.keep

    def slowly(album: Thumbnails, number: int, sample: Sample, pixels: Any) -> None:
        time.sleep(0.05)
        keep(album, number, sample, pixels)

    monkeypatch.setattr(Thumbnails, "keep", slowly)  # on a busy machine, what was answered is told all the same

    def pictures(service: TestClient) -> set[int]:
        return {step for one in get(service, "streams/s/memory")["classes"] for step in one["pictures"]}

    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "method": "cosmic"})
        show(service, "s", range(4), source="a")
        made = service.post("/v1/streams/s/snapshots", json={"note": "four"}).json()
        show(service, "s", range(4, 8), source="b")
        assert pictures(service) == set(range(1, 9))
        service.post("/v1/streams/s/roll-back", json={"snapshot": made["id"]})
        assert pictures(service) == {1, 2, 3, 4}
        show(service, "s", range(10, 12), source="c")
        late = pictures(service) - {1, 2, 3, 4}
        assert len(late) == 2
        assert service.post("/v1/streams/s/undo", json={"source": "a"}).status_code == 200
        assert pictures(service) == late
    with served(tmp_path / "data") as service:
        assert pictures(service) == late
        folder = next((tmp_path / "data").glob("*/thumbnails"))
        assert len(list(folder.iterdir())) == 10
        service.delete("/v1/streams/s")
        assert not folder.exists()


def test_small_pictures_are_bounded_and_those_still_held_go_last(tmp_path: Path) -> None:
    store = Thumbnails(tmp_path, most=20)
    clip, pixels = rows(40), np.zeros((64, 64, 3), np.uint8)
    for number, row in enumerate(clip):
        store.keep(number, Sample(row[None]), pixels)
    assert store.full
    store.prune(frozenset(fingerprint(row) for row in clip[:5]))
    assert store.numbers() == {*range(5), *range(27, 40)}
    assert len(list((tmp_path / "thumbnails").iterdir())) == 18
    assert store.steps_of(clip[:7]) == [0, 1, 2, 3, 4, None, None]
    again = Thumbnails(tmp_path, most=20, most_bytes=1)
    assert again.numbers() == store.numbers()
    again.prune(frozenset())
    assert len(again) == 0
    gone = Thumbnails(tmp_path / "gone")
    gone.keep(1, Sample(clip[0][None]), pixels)  # a folder that is no more is not made again
    assert len(gone) == 0


# Live events.


def test_a_reader_who_does_not_read_is_dropped_and_the_others_go_on() -> None:
    async def use() -> None:
        events = Events()
        slow, quick = events.join("s"), events.join("s")
        for number in range(QUEUE + 5):
            events.heard("s", "paused", number)
            quick.messages.clear()
        assert slow.over
        assert not slow.messages
        assert not quick.over
        assert events.readers == 1
        events.heard("s", "deleted", None)
        assert events.readers == 0

    asyncio.run(use())


def test_a_stuck_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.service.page.events.PATIENCE", 0.1)

    async def use() -> None:
        events = Events()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) > 1:
                await asyncio.sleep(60)

        async def receive() -> Any:
            await asyncio.sleep(60)

        begun = time.monotonic()
        await EventStream(events, "s", 3)({"type": "http"}, receive, send)
        assert time.monotonic() - begun < 2
        assert events.readers == 0

    asyncio.run(use())


def listener(server: Running, stream: str) -> socket.socket:
    """A reader with a small buffer, which reads only when told to."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", server.port))
    one.sendall(f"GET /v1/streams/{stream}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    one.settimeout(10)
    return one


def test_events_are_told_live_slow_readers_cost_nothing_and_an_end_does_not_wait_for_them(tmp_path: Path) -> None:
    given = features(samples(4))
    with Running(tmp_path / "data", "--policy", "everysec") as server:
        stream = server.client().create(**wanted())

        def steps(count: int) -> float:
            begun = time.monotonic()
            for _ in range(count):
                stream.predict_features(given, top=1)
            return time.monotonic() - begun

        plain = steps(40)
        idle = [listener(server, "s") for _ in range(20)]
        live = listener(server, "s")
        heard = live.recv(4096)
        while b"event: hello" not in heard:
            heard += live.recv(4096)
        watched = steps(40)
        stream.pause()
        while b"paused" not in heard:
            heard += live.recv(65536)
        told = [json.loads(one) for one in re.findall(rb"event: step\r?\ndata: (.*)", heard)]
        assert sum(one["count"] for one in told) == 160
        assert told[-1]["answers"][-1]["step"] == stream.describe()["number"] - 1
        print(f"40 requests: {plain:.2f} s unwatched, {watched:.2f} s with 20 readers that do not read")
        assert watched < 2 * plain + 1
        begun = time.monotonic()
        server.stop(10)
        assert time.monotonic() - begun < 5
        for one in [*idle, live]:
            one.close()
