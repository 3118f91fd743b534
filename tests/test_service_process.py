"""A server as a process of its own: the documentation's examples, crashes, many clients, slow and hostile ones."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import service_trials
from serving import CLASSES, Running, features, photograph, samples, until, wanted

from cosmic_tta.cli import main
from cosmic_tta.client import Client, ServiceError
from cosmic_tta.service.running import listening, run
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store

pytestmark = pytest.mark.pathless
DOCUMENTATION = (Path(__file__).resolve().parents[1] / "docs/service.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```curl\n(.*?)```", DOCUMENTATION, flags=re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", DOCUMENTATION, flags=re.DOTALL)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("data") / "streams") as running:
        running.client()
        yield running


def test_the_examples_of_the_documentation_run(running: Running, tmp_path: Path) -> None:
    for number, name in enumerate(("photo.png", "other.png")):
        (tmp_path / name).write_bytes(photograph(number))
    commands = [command for example in EXAMPLES for command in re.split(r"\n(?=curl )", example.strip())]
    assert len(commands) >= 20
    for command in commands:
        script = command.replace("curl -s", "curl -s --fail-with-body", 1)
        environment = {"URL": running.url, "PATH": "/usr/bin:/bin:/usr/local/bin"}
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    told = Client(running.url).stream("harbour").describe()
    assert told["classes"] == ["ship", "plane", "cat", "dog"]
    assert told["monitor"]["labelled"] == 2
    for name in ("harbour", "features"):
        Client(running.url).stream(name).delete()


def test_the_documentations_python_runs(running: Running, tmp_path: Path) -> None:
    for number, name in enumerate(("photo.png", "other.png")):
        (tmp_path / name).write_bytes(photograph(number))
    code = PYTHON[0].replace("http://127.0.0.1:8765", running.url)
    forbidden = "import sys\nfor name in ('fastapi', 'starlette', 'pydantic', 'PIL'): sys.modules[name] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", forbidden + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 [{'label': ")


def test_the_client_speaks_every_route(running: Running, tmp_path: Path) -> None:
    client = running.client()
    stream = client.create(**wanted("spoken"))
    told = stream.predict_features(features(samples(6)), top=1, why=True, source="roof")
    assert [one["step"] for one in told] == [1, 2, 3, 4, 5, 6]
    stream.label({1: CLASSES[0]})
    made = stream.snapshot("kept")
    stream.pause()
    assert stream.describe()["paused"]
    stream.resume()
    stream.reset()
    stream.roll_back(made["id"])
    stream.remove_snapshot(made["id"])
    assert made["id"] not in [one["id"] for one in stream.snapshots()]
    assert stream.sources() == [{"name": "roof", "first": 1, "samples": 6}]
    assert stream.snapshots()[-1]["number"] == 0
    stream.change_classes(rename={"cat": "tiger"})
    stream.export(tmp_path / "file")
    twin = client.import_("twin", tmp_path / "file")
    assert twin.describe(digest=True)["digest"] == stream.describe(digest=True)["digest"]
    twin.delete()
    assert "spoken" in [one["name"] for one in client.streams()]
    assert client.damaged() == []
    assert 'stream="spoken"' in client.metrics()
    with pytest.raises(ServiceError, match="no stream") as refused:
        twin.describe()
    assert (refused.value.status, refused.value.error) == (404, "not_found")
    with pytest.raises(ServiceError, match="takes features"):
        stream.predict(b"nothing")
    stream.delete()
    with pytest.raises(ValueError, match="http://127"):
        Client("localhost:99")


def test_a_client_that_was_idle_makes_a_new_connection(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    client = running.client()
    stream = client.create(**wanted("idle"))
    sock = client._connection.sock
    assert sock is not None
    sock.shutdown(socket.SHUT_RDWR)  # as the server does after a while
    monkeypatch.setattr("cosmic_tta.client.IDLE", 0.0)
    assert stream.predict_features(features(samples(1)))[0]["step"] == 1
    stream.delete()


def test_thirty_kills_lose_nothing(tmp_path: Path) -> None:
    told = service_trials.kills(tmp_path, 30, longest=0.2, most=5000)
    assert told["kills"] == 30
    assert told["answered"] > 30


def test_a_server_that_is_told_to_end_finishes_what_it_began(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as running:
        client = running.client()
        stream = client.create("pictures", CLASSES)
        body = [photograph(number) for number in range(32)]
        answered: list[int] = []
        thread = threading.Thread(target=lambda: answered.extend(one["step"] for one in stream.predict(body)))
        thread.start()
        until(lambda: 'cosmic_waiting{stream="pictures"} 1.0' in Client(running.url).metrics())
        assert running.stop() == ""
        thread.join()
        assert running.process.returncode == 0
        assert len(answered) == 32
    with Running(tmp_path / "data") as running:
        assert running.client().stream("pictures").describe()["seen"] == 32


def test_answers_of_many_clients_are_those_of_a_serial_run(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    told = service_trials.load(running.url, clients=16, requests=15, streams=4)
    with capsys.disabled():
        print(f"\n{told['requests']:.0f} requests of 16 clients: p99 {told['p99_ms']:.0f} ms")
    assert told["requests"] == 240
    figures = Client(running.url).metrics()
    assert not re.search(r'predict",status="5', figures)
    groups = float(re.findall(r"cosmic_commit_group_count (\S+)", figures)[0])
    steps = float(re.findall(r"cosmic_commit_group_sum (\S+)", figures)[0])
    assert groups < steps  # steps that waited together went to disk together


def send(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send pieces with pauses; return all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:
                break
            time.sleep(pause)
        heard = b""
        try:
            while piece := connection.recv(65536):
                heard += piece
        except ConnectionResetError:
            pass
        return heard


def test_heads_and_bodies_that_drip_are_cut_off(tmp_path: Path) -> None:
    settings = Settings(head_seconds=0.5, body_seconds=0.5)
    bound = listening("127.0.0.1", 0)
    port = bound.getsockname()[1]
    server = threading.Thread(target=run, args=(Store(tmp_path / "data"), settings, bound), daemon=True)
    server.start()
    until(Client(f"http://127.0.0.1:{port}").ready)
    begun = time.monotonic()
    assert send(port, *[b"GET /live HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n"] + [b"X: y\r\n"] * 20, pause=0.1) == b""
    assert b" 408 " in send(port, HEAD + b"Content-Length: 20\r\n\r\n", *[b"x"] * 15, pause=0.1)[:20]
    assert send(port, pause=0.0) == b""  # who says nothing is not waited for
    assert time.monotonic() - begun < 15
    assert Client(f"http://127.0.0.1:{port}").ready()


def test_the_service_does_what_its_description_says(tmp_path: Path) -> None:
    token = "a-token-for-the-description"
    (tmp_path / "token").write_text(token)
    with Running(tmp_path / "data", "--token-file", str(tmp_path / "token")) as running:
        running.client(token).create(**wanted("harbour"))
        told = service_trials.by_description(running.url, token, tmp_path, examples=2, seconds=15)
        assert "28 selected" in told or "Tested: 28" in told, told[-1500:]
        assert "Traceback" not in running.complaints()


HEAD = b"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_large_bodies_are_refused_before_they_are_here(running: Running) -> None:
    before = running.memory()
    told = send(running.port, HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x" * 1_000_000)
    assert b" 413 " in told.split(b"\r\n")[0]
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"] == "too_large"
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    chunked = send(running.port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[piece] * 120)
    assert b" 413 " in chunked.split(b"\r\n")[0]
    assert running.memory() - before < 150_000_000


def test_what_is_no_http_is_refused(running: Running) -> None:
    for nonsense in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    ):
        told = send(running.port, nonsense)
        assert b" 400 " in told.split(b"\r\n")[0]
        assert set(json.loads(told.partition(b"\r\n\r\n")[2])) == {"error", "detail", "hint"}
    long = b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert b" 400 " in send(running.port, long).split(b"\r\n")[0]
    websocket = b"GET /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert b"101" not in send(running.port, websocket + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")[:20]
    assert Client(running.url).ready()


def test_refused_commands_end_with_a_sentence(
    tmp_path: Path, running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--port", "0", "--data", str(tmp_path / "d"), *options])
        assert ended.value.code == 2
        return capsys.readouterr().err

    assert "--token-file" in refused("--host", "0.0.0.0")
    assert "another --port" in refused("--port", str(running.port))
    assert "--fetch-from takes a host" in refused("--fetch-from", "http://x/")
    assert "always, everysec" in refused("--policy", "never")
    assert "at least 1" in refused("--workers", "0")
    (tmp_path / "token").write_text("short")
    assert "secrets" in refused("--token-file", str(tmp_path / "token"))
    with Store(tmp_path / "d"):
        assert "in use by process" in refused()
    (tmp_path / "file").write_text("")
    assert "cannot make" in refused("--data", str(tmp_path / "file" / "d"))


def test_without_the_extra_the_command_says_how_it_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cosmic_tta.service.find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    assert "pip install 'cosmic-tta[serve]'" in capsys.readouterr().err
