"""Spoiled pictures: refused in words or read, never a failure, and a refused one teaches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_trials import odd_pictures, sound_pictures, spoiled_pictures
from serving import CLASSES, served

from cosmic_tta.service.settings import Settings

pytestmark = pytest.mark.pathless


def test_two_hundred_bad_pictures(tmp_path: Path) -> None:
    odd = odd_pictures()
    pictures = odd + list(spoiled_pictures(260 - len(odd)))
    with served(tmp_path / "data", Settings(decode_seconds=10, wait_ms=0, threads=1)) as service:
        assert service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "aux": None}).status_code == 201
        head = {"Content-Type": "application/octet-stream"}
        for name, data in sound_pictures():
            answer = service.post("/v1/streams/s/predict", content=data, headers=head)
            assert answer.status_code == 200, (name, answer.text)
        accepted = len(sound_pictures())
        refused = []
        for name, data in pictures:
            answer = service.post("/v1/streams/s/predict?top=1", content=data, headers=head)
            assert answer.status_code in (200, 413, 422), (name, answer.text)
            if answer.status_code == 200:
                accepted += 1
            else:
                refused.append(data)
                assert set(answer.json()) == {"error", "detail", "hint"}
        assert len(refused) >= 120
        told = service.get("/v1/streams/s?digest=true").json()
        assert told["monitor"]["answered"] == accepted
        for data in refused:
            service.post("/v1/streams/s/predict", content=data, headers=head)
        assert service.get("/v1/streams/s?digest=true").json()["digest"] == told["digest"]
    assert len(pictures) >= 200


def test_every_odd_file_but_the_readable_is_refused(tmp_path: Path) -> None:
    harmless = {"too much data", "too little data"}  # there is a picture in it
    with served(tmp_path / "data", Settings(decode_seconds=10)) as service:
        assert service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "aux": None}).status_code == 201
        for name, data in odd_pictures():
            if name in harmless or name.startswith(("half", "the wrong", "a head missing")):
                continue
            answer = service.post("/v1/streams/s/predict", files=[("pictures", data)])
            assert answer.status_code in (413, 422), (name, answer.text)
