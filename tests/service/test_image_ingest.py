"""From images to samples: corrupted images, encoders that are missing or changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.classifier import Classifier
from cosmic_tta.service.settings import ServiceSettings
from tests.support.corrupted_images import corrupted_images, hostile_files, valid_images
from tests.support.serving import (
    CLASSES,
    photograph,
    rows,
    served,
)
from tests.support.tiny import TinyEncoder

pytestmark = pytest.mark.pathless


def test_corrupted_images_are_refused_or_read_and_refused_ones_teach_nothing(tmp_path: Path) -> None:
    odd = hostile_files()
    images = odd + list(corrupted_images(260 - len(odd)))
    with served(tmp_path / "data", ServiceSettings(decode_seconds=10, batch_wait_ms=0, encoder_threads=1)) as service:
        assert service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "aux": None}).status_code == 201
        head = {"Content-Type": "application/octet-stream"}
        for name, data in valid_images():
            answer = service.post("/v1/streams/s/predict", content=data, headers=head)
            assert answer.status_code == 200, (name, answer.text)
        accepted = len(valid_images())
        refused = []
        for name, data in images:
            answer = service.post("/v1/streams/s/predict?top=1", content=data, headers=head)
            assert answer.status_code in (200, 413, 422), (name, answer.text)
            if answer.status_code == 200:
                accepted += 1
            else:
                refused.append(data)
                assert set(answer.json()) == {"error", "detail", "hint"}
        assert len(refused) >= 120
        reply = service.get("/v1/streams/s?digest=true").json()
        assert reply["monitor"]["answered"] == accepted
        for data in refused:
            service.post("/v1/streams/s/predict", content=data, headers=head)
        assert service.get("/v1/streams/s?digest=true").json()["digest"] == reply["digest"]
    assert len(images) >= 200


def test_files_that_are_not_images_are_refused(tmp_path: Path) -> None:
    harmless = {"too much data", "too little data"}  # there is an image in it
    with served(tmp_path / "data", ServiceSettings(decode_seconds=10)) as service:
        assert service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "aux": None}).status_code == 201
        for name, data in hostile_files():
            if name in harmless or name.startswith(("half", "the wrong", "a head missing")):
                continue
            answer = service.post("/v1/streams/s/predict", files=[("images", data)])
            assert answer.status_code in (413, 422), (name, answer.text)


def test_a_stream_whose_encoder_is_missing_takes_features_alone(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES, "aux": None})
    with served(tmp_path / "data", ServiceSettings(encoders=("mini:dino",))) as service:
        assert "mini:clip" in service.get("/v1/streams/b").json()["problem"]
        refused = service.post("/v1/streams/b/predict", files=[("images", photograph(0))])
        assert refused.status_code == 409
        width = Classifier(CLASSES, aux=None).clip.dim
        body = {"features": [{"clip": rows(1, width)[0].tolist()}]}
        assert service.post("/v1/streams/b/predict", json=body).status_code == 200


def test_an_encoder_with_other_weights_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES, "aux": None})
    monkeypatch.setattr("cosmic_tta.service.encoder_batching.load_encoder", lambda name, kind, threads: TinyEncoder())
    with served(tmp_path / "data") as service:
        assert "weights of mini:clip differ" in service.get("/v1/streams/b").json()["problem"]
        refused = service.post("/v1/streams/b/predict", files=[("images", photograph(0))])
        assert refused.status_code == 409
        assert service.get("/v1/streams/b").json()["seen"] == 0
