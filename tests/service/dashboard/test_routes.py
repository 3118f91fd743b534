"""Routes of the dashboard: the list of streams, classes, thumbnails, events."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from cosmic_tta.service.dashboard import events
from tests.support.serving import CLASSES, check_problem, get_json, learn

pytestmark = pytest.mark.pathless


def test_the_summary_counts_classes_and_lists_what_new_streams_may_use(service: TestClient, stream: str) -> None:
    learn(service, stream, 3)
    summary = get_json(service, "dashboard")
    (row,) = summary["streams"]
    assert (row["name"], row["classes"], row["seen"], row["waiting"]) == ("fresh", len(CLASSES), 3, 0)
    assert summary["damaged"] == []
    assert summary["encoders"] == ["mini:clip"]
    assert "cosmic" in summary["methods"]
    assert "tip_adapter" not in summary["methods"]


def test_the_last_prediction_is_null_before_the_first(service: TestClient, stream: str) -> None:
    assert get_json(service, "streams/fresh/last-prediction") == {"answer": None}
    (prediction,) = learn(service, stream, 1)
    last = get_json(service, "streams/fresh/last-prediction")["answer"]
    assert last["step"] == prediction["step"]
    assert last["answers"][0]["label"] == prediction["answers"][0]["label"]


def test_classes_steps_and_files_that_do_not_exist(service: TestClient, stream: str) -> None:
    learn(service, stream, 1)
    check_problem(service.get(f"{stream}/similar-classes", params={"label": "dragon"}), 422)
    check_problem(service.get(f"{stream}/thumbnails/1"), 404)  # features have none
    check_problem(service.get("/page/none.js"), 404)
    check_problem(service.get("/v1/streams/none/events"), 404)


def test_the_number_of_open_dashboards_is_limited(
    service: TestClient, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_SUBSCRIBERS", 0)
    refused = service.get(f"{stream}/events")
    check_problem(refused, 429)
    assert refused.headers["retry-after"] == "30"
