"""JSON for the dashboard: every method, accuracy curves, bounded sizes, alarms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from cosmic_tta.core.arrays import unit
from cosmic_tta.core.types import Sample
from tests.support.serving import (
    CLASSES,
    features,
    get_json,
    predict_images,
    rows,
    samples,
    served,
    wanted,
)

pytestmark = pytest.mark.pathless


def test_every_method_has_views(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        for method in ("bayes_means", "cosmic", "tda", "dmn", "zero_shot"):
            check_views(service, method)


def check_views(service: TestClient, method: str) -> None:
    service.post("/v1/streams", json={"name": method, "classes": [*CLASSES, "dog"], "method": method})
    assert get_json(service, f"streams/{method}/last-prediction") == {"answer": None}
    predict_images(service, method, range(12), source="roof")
    service.post(
        f"/v1/streams/{method}/labels", json={"labels": [{"step": 3, "label": "cat"}, {"step": 4, "label": "dog"}]}
    )
    reply = get_json(service, f"streams/{method}/overview")
    assert reply["curves"]["step"] == list(range(1, 13))
    assert reply["curves"]["labelled"] == [3, 4]
    assert reply["sources"] == [{"name": "roof", "first": 1, "steps": 12}]
    assert {one["number"] for one in reply["unsure"]} == set(range(1, 13)) - {3, 4}
    margins = [one["margin"] for one in reply["unsure"]]
    assert margins == sorted(margins)
    assert reply["alarms"] == []
    assert set(reply["signals"]) == {"drift", "agreement", "variety", "entropy"}
    assert reply["not_learned"] == {"paused": 0, "duplicate": 0, "quota": 0}
    last = get_json(service, f"streams/{method}/last-prediction")["answer"]
    assert last["step"] == 12
    assert bool(last["hyper_classes"]) == (method == "cosmic")
    held = get_json(service, f"streams/{method}/memory")
    images = [step for one in held["classes"] for step in one["images"]]
    if method == "zero_shot":
        assert held["memories"] == []
    else:
        assert sum(one["held"][0] for one in held["classes"]) == len(set(images)) > 3
        assert held["classes"][0]["answered"] == max(one["answered"] for one in held["classes"])
    small = service.get(f"/v1/streams/{method}/thumbnails/3")
    assert small.headers["content-type"] == "image/jpeg"
    assert small.content[:2] == b"\xff\xd8"
    assert service.get(f"/v1/streams/{method}/thumbnails/13").status_code == 404
    near = get_json(service, f"streams/{method}/similar-classes?label=cat")
    assert near["classes"][0] == "cat"
    assert service.get(f"/v1/streams/{method}/similar-classes?label=cow").status_code == 422


def test_accuracy_curves_end_where_the_monitor_is(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted())
        service.post("/v1/streams/s/predict", json={"features": features(samples(60))})
        labels = [{"step": step, "label": CLASSES[step % 4]} for step in range(1, 61, 2)]
        service.post("/v1/streams/s/labels", json={"labels": labels})
        reply, plain = get_json(service, "streams/s/overview"), get_json(service, "streams/s")["monitor"]
        assert reply["curves"]["accuracy"][-1] == pytest.approx(plain["accuracy"], abs=1e-4)
        assert reply["curves"]["zero_shot"][-1] == pytest.approx(plain["zero_shot_accuracy"], abs=1e-4)
        assert len(reply["curves"]["accuracy"]) == 30
        wrong = [one for one in plain["confusions"] if one["label"] != one["answer"]]
        assert sum(one["count"] for one in reply["confusions"]) <= sum(one["count"] for one in wrong)
        assert reply["confusions"][0]["count"] == max(one["count"] for one in wrong)


def test_responses_stay_small_with_a_thousand_classes(tmp_path: Path) -> None:
    names = [f"class {number}" for number in range(1000)]
    text = rows(1000, seed=3)
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted(classes=names, text=text.tolist(), method="cosmic"))
        given = [Sample(unit(text[k] + 0.1 * rows(1, seed=k)[0])[None]) for k in range(200)]
        for start in range(0, 200, 50):
            service.post("/v1/streams/s/predict?top=1", json={"features": features(given[start : start + 50])})
        for path in ("overview", "memory?count=12", "last-prediction"):
            answer = service.get(f"/v1/streams/s/{path}")
            assert len(answer.content) < 40_000, path
        found = get_json(service, "streams/s/memory?find=CLASS 99&count=100")
        assert {one["name"] for one in found["classes"]} == {"class 99", *(f"class 99{n}" for n in range(10))}
        assert get_json(service, "streams/s/memory?offset=990")["found"] == 1000
        assert len(get_json(service, "dashboard")["streams"][0]) < 20


def test_alarms_and_admission_counts_are_shown(tmp_path: Path) -> None:
    """The same image again, and then a domain in which every class has moved the same way."""
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
        assert get_json(service, "streams/s/overview")["alarms"] == []
        service.post("/v1/streams/s/predict", json={"features": features([Sample(clip[:1])] * 3)})
        for start in range(300, 480, 60):
            given = features([Sample(row[None]) for row in clip[start : start + 60]])
            service.post("/v1/streams/s/predict?top=1", json={"features": given})
        reply = get_json(service, "streams/s/overview")
        (alarm,) = reply["alarms"]
        assert alarm["kind"] == "drift"
        assert "the images changed" in alarm["detail"]
        assert reply["signals"]["drift"] > 0.045
        assert reply["not_learned"]["duplicate"] >= 2
        assert get_json(service, "dashboard")["streams"][0]["alarms"] == ["drift"]
        assert get_json(service, "streams/s")["alarms"] == reply["alarms"]
