"""Routes that predict images and record labels."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from cosmic_tta import Sample
from tests.support.serving import AUX, digest, features, learn, rows

pytestmark = pytest.mark.pathless


def test_predicting_without_learning_changes_nothing_and_why_is_optional(service: TestClient, stream: str) -> None:
    learn(service, stream, 10)
    before = digest(service, stream)
    looked = learn(service, stream, 4, seed=7, learn="false", why="true", top=2)
    assert digest(service, stream) == before
    assert all(one["step"] is None and not one["learned"] and len(one["answers"]) == 2 for one in looked)
    assert all("soft_counts" in one["why"] for one in looked)
    assert learn(service, stream, 1, learn="false")[0]["why"] is None


def test_labels_are_for_the_monitor_alone(service: TestClient, stream: str) -> None:
    answers = learn(service, stream, 6)
    before = learn(service, stream, 3, seed=5, learn="false")
    pairs = [{"step": one["step"], "label": one["answers"][0]["label"]} for one in answers[:4]]
    pairs.append({"step": answers[4]["step"], "label": answers[4]["answers"][-1]["label"]})
    reply = service.post(f"{stream}/labels", json={"labels": pairs})
    assert reply.status_code == 200, reply.text
    monitor = service.get(stream).json()["monitor"]
    assert (monitor["labelled"], monitor["right"]) == (5, 4)
    assert monitor["accuracy"] == pytest.approx(0.8)
    assert learn(service, stream, 3, seed=5, learn="false") == before


def test_labels_are_recorded_all_or_none(service: TestClient, stream: str) -> None:
    step = learn(service, stream, 1)[0]["step"]
    for wrong in ({"step": step, "label": "dragon"}, {"step": 10_000, "label": "cat"}):
        reply = service.post(f"{stream}/labels", json={"labels": [{"step": step, "label": "cat"}, wrong]})
        assert reply.status_code == 422
    assert service.get(stream).json()["monitor"]["labelled"] == 0


def test_each_answer_says_how_likely_the_image_is_of_none_of_the_classes(service: TestClient, stream: str) -> None:
    unsure = [Sample(row[None], aux) for row, aux in zip(rows(20, seed=3), rows(20, AUX, seed=4), strict=True)]
    reply = service.post(f"{stream}/predict", json={"features": features(unsure)})
    assert reply.status_code == 200, reply.text
    shares = [one["unknown"] for one in reply.json()["predictions"]]
    assert all(0 <= share <= 1 for share in shares)
    assert max(shares) > 0.1
