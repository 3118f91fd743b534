"""The client's connection."""

from __future__ import annotations

import socket

import pytest

from tests.support.serving import (
    Running,
    features,
    samples,
    wanted,
)

pytestmark = pytest.mark.pathless


def test_an_idle_connection_is_opened_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    client = running.client()
    stream = client.create(**wanted("idle"))
    sock = client._connection._http.sock
    assert sock is not None
    sock.shutdown(socket.SHUT_RDWR)  # as the server does after a while
    monkeypatch.setattr("cosmic_tta.service.connection.MAX_IDLE_SECONDS", 0.0)
    assert stream.predict_features(features(samples(1)))[0]["step"] == 1
    stream.delete()
