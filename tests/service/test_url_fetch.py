"""Images from URLs: allowed hosts, public addresses, limits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.service.errors import Problem
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.service.url_fetch import UrlFetcher, is_public
from tests.support.serving import (
    CLASSES,
    photograph,
    served,
)

pytestmark = pytest.mark.pathless

NOT_PUBLIC = [
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "fe80::1",
    "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",     "2001:db8::1", "::127.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_host_with_an_address_that_is_not_public_is_refused(address: str) -> None:
    def connect(*_: Any, **__: Any) -> socket.socket:
        raise AssertionError("no connection may be made")

    assert not is_public(address)
    for found in ([address], ["93.184.216.34", address]):
        fetcher = UrlFetcher(ServiceSettings(fetch_hosts=("images.example",)), lambda host, port, f=found: f, connect)  # type: ignore[misc]
        with pytest.raises(Problem) as refused:
            fetcher.fetch("http://images.example/a.png")
        assert refused.value.status == 403


TRICKS = [
    "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/",
    "http://127.1/", "http://169.254.169.254/latest/meta-data/", "http://evil.example/", "http://images.example.evil.example/",
    "http://images.example@evil.example/", "http://evil.example#@images.example/", "http://evil.example\\@images.example/",
    "http://user:secret@images.example/", "http://images.example:22/", "http://images.example:6379/", "https://images.example:80/",
    "ftp://images.example/", "file:///etc/passwd", "gopher://images.example/", "data:image/png;base64,AAAA", "jar:http://images.example!/",
    "//images.example/a", "images.example/a", "http:///a", "http://images.example:99999/", "http://images.example:x/",
    "http://[::1/", "http://images.example/a b", "http://images.example/\r\nHost: evil", "http://images.example/\x00",
    "http://pıctures.example/", "http://images.example%2eevil.example/", "http://" + "a" * 3000 + "/", "HTTP://127.0.0.1/",
    "",
]  # fmt: skip


@pytest.mark.parametrize("url", TRICKS)
def test_a_url_that_is_malformed_or_not_allowed_is_refused(url: str) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing may be looked up")

    with pytest.raises(Problem) as refused:
        UrlFetcher(ServiceSettings(fetch_hosts=("images.example",)), resolve).fetch(url)
    assert refused.value.status in (403, 422)


class _ImageServer(BaseHTTPRequestHandler):
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
            self.wfile.write(photograph())
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


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    server = HTTPServer(("127.0.0.1", 0), _ImageServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    looked_up: list[str] = []
    connected: list[Any] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["93.184.216.34"] if len(looked_up) == 1 or host == "images.example" else ["127.0.0.1"]

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        return socket.create_connection(("127.0.0.1", server.server_port), timeout)

    try:
        settings = ServiceSettings(fetch_hosts=("images.example",), max_image_bytes=1 << 20, fetch_seconds=1.0)
        fetcher = UrlFetcher(settings, resolve, connect)
        assert fetcher.fetch("http://images.example/png") == photograph()
        assert connected == [("93.184.216.34", 80)]
        assert looked_up == ["images.example"]
        assert fetcher.fetch("http://images.example/to-png") == photograph()
        for path, status in (("to-inside", 403), ("to-self", 422), ("none", 422), ("endless", 413), ("slow", 422)):
            start = time.monotonic()
            with pytest.raises(Problem) as refused:
                fetcher.fetch(f"http://images.example/{path}")
            assert refused.value.status == status, path
            assert time.monotonic() - start < 5
    finally:
        server.shutdown()
        server.server_close()


def test_images_are_fetched_from_allowed_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get(self: UrlFetcher, split: Any, deadline: float) -> tuple[int, str, bytes]:
        asked.append(split.geturl())
        return 200, "", photograph(len(asked))

    with served(tmp_path / "data", ServiceSettings(fetch_hosts=("images.example",), encoder_threads=1)) as service:
        assert service.post("/v1/streams", json={"name": "f", "classes": CLASSES, "aux": None}).status_code == 201
        inside = service.post("/v1/streams/f/predict", json={"urls": ["http://169.254.169.254/latest/"]})
        assert inside.status_code == 403
        monkeypatch.setattr(UrlFetcher, "_get", get)
        urls = ["http://images.example/1.png", "https://images.example/2.png"]
        answer = service.post("/v1/streams/f/predict", json={"urls": urls})
        assert answer.status_code == 200, answer.text
        assert asked == urls
        assert [one["step"] for one in answer.json()["predictions"]] == [1, 2]
        assert service.post("/v1/streams/f/predict", json={"urls": [*urls, "http://other.example/"]}).status_code == 403
        assert service.get("/v1/streams/f").json()["seen"] == 2
