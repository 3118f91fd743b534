"""A server process: the documentation's examples, crashes, many clients, slow and hostile ones."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cosmic_tta.cli.app import main
from cosmic_tta.service.app import make_app
from cosmic_tta.service.client import Client
from cosmic_tta.service.server import bind_socket, run_server
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.sessions.store import Store
from tests.support import service_trials
from tests.support.paths import ROOT
from tests.support.serving import (
    CLASSES,
    Running,
    photograph,
    send_raw,
    until,
)

pytestmark = pytest.mark.pathless

DOCUMENTATION = (ROOT / "docs/guide/service.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```curl\n(.*?)```", DOCUMENTATION, flags=re.DOTALL)
HEAD = b"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


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
    reply = Client(running.url).stream("harbour").describe()
    assert reply["classes"] == ["ship", "plane", "cat", "dog"]
    assert reply["monitor"]["labelled"] == 2
    for name in ("harbour", "features"):
        Client(running.url).stream(name).delete()


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost"])
def test_a_server_without_a_token_accepts_the_address_it_prints(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses: dict[str, int] = {}

    def run(store: Store, settings: ServiceSettings, listener: socket.socket, *, log: bool) -> None:
        listener.close()
        with TestClient(make_app(store, settings), base_url=f"http://{host}:8765") as client:
            for name in (f"{host}:8765", "127.0.0.1:8765", "127.0.0.3:8765"):
                statuses[name] = client.get("/live", headers={"Host": name}).status_code

    monkeypatch.setattr("cosmic_tta.service.server.run_server", run)
    with pytest.raises(SystemExit, match="0"):
        main(["serve", "--data", str(tmp_path / "streams"), "--host", host, "--port", "0"])
    assert f"http://{host}:" in capsys.readouterr().out
    assert statuses == {f"{host}:8765": 200, "127.0.0.1:8765": 200, "127.0.0.3:8765": 403}


def test_thirty_kills_lose_nothing(tmp_path: Path) -> None:
    trial = service_trials.kills(tmp_path, 30, longest=0.2, most=5000)
    assert trial["kills"] == 30
    assert trial["answered"] > 30


def test_a_server_that_is_terminated_finishes_its_requests(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as running:
        client = running.client()
        stream = client.create("images", CLASSES)
        body = [photograph(number) for number in range(32)]
        answered: list[int] = []
        thread = threading.Thread(target=lambda: answered.extend(one["step"] for one in stream.predict(body)))
        thread.start()
        until(lambda: 'cosmic_waiting{stream="images"} 1.0' in Client(running.url).metrics())
        assert running.stop() == ""
        thread.join()
        assert running.process.returncode == 0
        assert len(answered) == 32
    with Running(tmp_path / "data") as running:
        assert running.client().stream("images").describe()["seen"] == 32


def test_predictions_for_many_clients_are_those_of_a_serial_run(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = service_trials.load(running.url, clients=16, requests=15, streams=4)
    with capsys.disabled():
        print(f"\n{trial['requests']:.0f} requests of 16 clients: p99 {trial['p99_ms']:.0f} ms")
    assert trial["requests"] == 240
    figures = Client(running.url).metrics()
    assert not re.search(r'predict",status="5', figures)
    groups = float(re.findall(r"cosmic_commit_group_count (\S+)", figures)[0])
    steps = float(re.findall(r"cosmic_commit_group_sum (\S+)", figures)[0])
    assert groups < steps  # steps that waited together went to disk together


def test_slow_headers_and_bodies_are_refused(tmp_path: Path) -> None:
    settings = ServiceSettings(header_seconds=0.5, body_seconds=0.5)
    bound = bind_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    server = threading.Thread(target=run_server, args=(Store(tmp_path / "data"), settings, bound), daemon=True)
    server.start()
    until(Client(f"http://127.0.0.1:{port}").ready)
    start = time.monotonic()
    assert send_raw(port, *[b"GET /live HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n"] + [b"X: y\r\n"] * 20, pause=0.1) == b""
    assert b" 408 " in send_raw(port, HEAD + b"Content-Length: 20\r\n\r\n", *[b"x"] * 15, pause=0.1)[:20]
    assert send_raw(port, pause=0.0) == b""  # who says nothing is not waited for
    assert time.monotonic() - start < 15
    assert Client(f"http://127.0.0.1:{port}").ready()


def test_large_bodies_are_refused_before_they_are_read(running: Running) -> None:
    before = running.memory()
    reply = send_raw(running.port, HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x" * 1_000_000)
    assert b" 413 " in reply.split(b"\r\n")[0]
    assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"] == "too_large"
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    chunked = send_raw(running.port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[piece] * 120)
    assert b" 413 " in chunked.split(b"\r\n")[0]
    assert running.memory() - before < 150_000_000


def test_data_that_is_not_http_is_refused(running: Running) -> None:
    for nonsense in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    ):
        reply = send_raw(running.port, nonsense)
        assert b" 400 " in reply.split(b"\r\n")[0]
        assert set(json.loads(reply.partition(b"\r\n\r\n")[2])) == {"error", "detail", "hint"}
    long = b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert b" 400 " in send_raw(running.port, long).split(b"\r\n")[0]
    websocket = b"GET /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert b"101" not in send_raw(running.port, websocket + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")[:20]
    assert Client(running.url).ready()


def test_a_refused_command_ends_with_a_message(
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


def test_without_the_extra_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cosmic_tta.service.find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    assert "pip install 'cosmic-tta[serve]'" in capsys.readouterr().err
