"""The application as a whole: its predictions and its OpenAPI description."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cosmic_tta.core.types import Task
from cosmic_tta.methods import make_method
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.session import Session
from tests.support import service_trials
from tests.support.serving import (
    CLASSES,
    Running,
    digest,
    features,
    learn,
    samples,
    wanted,
)

pytestmark = pytest.mark.pathless


def test_a_stream_predicts_what_the_engine_predicts(service: TestClient, stream: str, tmp_path: Path) -> None:
    given = samples(40)
    method = make_method("bayes_means")
    text = wanted()["text"]
    state = method.init(Task(tuple(CLASSES), text))
    expected = [method.step(state, sample).scores for sample in given]
    for start in range(0, 40, 8):
        body = {"features": features(given[start : start + 8])}
        answers = service.post(f"{stream}/predict", json=body).json()["predictions"]
        for reply, scores in zip(answers, expected[start : start + 8], strict=True):
            assert {one["label"]: one["score"] for one in reply["answers"]} == {
                name: float(score) for name, score in zip(CLASSES, scores, strict=True)
            }
            shown = [one["score"] for one in reply["answers"]]
            assert shown == sorted(shown, reverse=True)


def test_the_digest_is_that_of_an_equal_session(service: TestClient, stream: str, tmp_path: Path) -> None:
    learn(service, stream, 30)
    method = make_method("bayes_means")
    metadata = {"preset": "default", "views": 1, "seed": 0}
    beside = Session.create(
        tmp_path / "s",
        "other",
        Task(tuple(CLASSES), wanted()["text"]),
        method,
        metadata=metadata,
        guard=AdmissionPolicy(),
    )
    with beside:
        beside.step(samples(30))
        assert digest(service, stream) == beside.digest()


def test_the_description_has_every_route_an_example_and_the_form_of_errors(service: TestClient) -> None:
    reply = service.get("/openapi.json").json()
    assert len([path for path in reply["paths"] if path.startswith("/v1/")]) >= 14
    for path, methods in reply["paths"].items():
        for method in methods.values():
            assert method["summary"], path
            if path.startswith("/v1/"):
                assert method["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith(
                    "ProblemBody"
                )
    schemas = reply["components"]["schemas"]
    assert schemas["CreateStream"]["examples"]
    assert schemas["PredictBody"]["examples"]
    assert set(schemas["ProblemBody"]["properties"]) == {"error", "detail", "hint"}
    assert (schemas["ProblemBody"]["title"], schemas["PredictionBody"]["title"]) == ("Problem", "Prediction")


def test_operation_ids_are_plain_and_unique(service: TestClient) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    ids = [operation["operationId"] for operations in paths.values() for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    assert {"create_stream", "list_streams", "predict", "label_steps", "roll_back", "forget_source"} < set(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", one) for one in ids)


def test_the_service_conforms_to_its_openapi_description(tmp_path: Path) -> None:
    token = "a-token-for-the-description"
    (tmp_path / "token").write_text(token)
    with Running(tmp_path / "data", "--token-file", str(tmp_path / "token")) as running:
        running.client(token).create(**wanted("harbour"))
        reply = service_trials.conformance(running.url, token, tmp_path, examples=2, seconds=15)
        assert "28 selected" in reply or "Tested: 28" in reply, reply[-1500:]
        assert "Traceback" not in running.stderr()
