"""Methods and tasks of new streams and of changed ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    CLASSES,
    TEXT,
    check_problem,
    learn,
    photograph,
    rows,
    wanted,
)

pytestmark = pytest.mark.pathless

JSON = {"Content-Type": "application/json"}
CREATE: dict[str, dict[str, Any]] = {
    "no name": {"name": None},
    "a path as a name": {"name": "../../etc/passwd"},
    "a name with a slash": {"name": "a/b"},
    "a name that begins with a dot": {"name": ".hidden"},
    "an empty name": {"name": ""},
    "a long name": {"name": "a" * 65},
    "a name with a null": {"name": "a\x00b"},
    "a number as a name": {"name": 5},
    "no classes": {"classes": []},
    "classes twice": {"classes": ["a", "a", "b", "c"]},
    "an empty class": {"classes": ["", "b", "c", "d"]},
    "a string of classes": {"classes": "abcd"},
    "half a character": {"classes": ["\ud800", "b", "c", "d"]},
    "an unknown field": {"shots": 3},
    "an unknown method": {"method": "cosmik"},
    "an unknown preset": {"preset": "best"},
    "an unknown parameter": {"params": {"shotz": 3}},
    "a parameter out of range": {"params": {"sharpness": -1.0}},
    "a parameter of the wrong type": {"params": {"temporal": "yes"}},
    "a nested parameter": {"params": {"sharpness": {"a": 1}}},
    "too few texts": {"text": TEXT[:2].tolist()},
    "texts of two widths": {"text": [[1.0], [1.0, 0.0], [1.0], [1.0]]},
    "texts that are not unit": {"text": (TEXT * 2).tolist()},
    "texts past float32": {"text": [[1e39], [1.0], [1.0], [1.0]]},
    "texts of zeros": {"text": (TEXT * 0).tolist()},
    "no text and no encoder": {"text": None},
    "a text with an encoder": {"encoder": "mini:clip"},
    "a path as an encoder": {"encoder": "onnx:/etc", "text": None},
    "an encoder that is not served": {"encoder": "hf:openai/clip-vit-base-patch16", "text": None},
    "an encoder without texts": {"encoder": "mini:dino", "text": None, "aux": None},
    "a path as an auxiliary encoder": {"encoder": "mini:clip", "text": None, "aux": "onnx:../../secret"},
    "a template without a place": {"encoder": "mini:clip", "text": None, "templates": ["a photo."]},
    "descriptions of strangers": {"encoder": "mini:clip", "text": None, "descriptions": {"dragon": ["It flies."]}},
    "too many views": {"encoder": "mini:clip", "text": None, "views": 500},
    "an infinite scale": {"logit_scale": 1e300},
    "a policy that is none": {"policy": "never"},
    "a memory of gigabytes": {
        "method": "tda",
        "params": {"shots": 1_000_000},
        "classes": [str(n) for n in range(64)],
        "text": rows(64).tolist(),
    },
}


@pytest.mark.parametrize("wrong", CREATE.values(), ids=CREATE)
def test_a_stream_that_cannot_be_created_is_refused(limited_service: TestClient, wrong: dict[str, Any]) -> None:
    before = limited_service.get("/v1/streams").json()
    body = {**wanted("new"), **wrong}
    answer = limited_service.post("/v1/streams", content=json.dumps(body), headers=JSON)
    check_problem(answer, 422)
    assert limited_service.get("/v1/streams").json() == before


GOOD = rows(1)[0].tolist()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"add": ["cat"]},
        {"add": ["owl"]},
        {"add": ["owl", "owl"], "text": {"owl": GOOD}},
        {"add": ["owl"], "text": {"owl": GOOD[:3]}},
        {"add": ["owl"], "text": {"owl": [2.0] * 16}},
        {"add": ["owl"], "text": {"owl": GOOD, "dragon": GOOD}},
        {"remove": ["dragon"]},
        {"remove": CLASSES},
        {"rename": {"dragon": "cat"}},
        {"rename": {"cat": "ship"}},
        {"rename": {"cat": ""}},
        {"rename": {"cat": "lion"}, "remove": ["cat"]},
        {"add": "owl"},
    ],
)
def test_a_change_of_classes_that_is_not_valid_is_refused(limited_service: TestClient, change: dict[str, Any]) -> None:
    before = limited_service.get("/v1/streams/s?digest=true").json()
    check_problem(limited_service.post("/v1/streams/s/classes", json=change), 422)
    assert limited_service.get("/v1/streams/s?digest=true").json() == before


def test_every_method_is_served_or_refused_with_a_reason(service: TestClient) -> None:
    from cosmic_tta import METHODS

    for name, kind in METHODS.items():
        made = service.post("/v1/streams", json=wanted("any", method=name))
        assert made.status_code == (422 if set(kind.needs) & {"support", "tower", "checkpoint"} else 201), made.text
        if made.status_code == 201:
            learn(service, "/v1/streams/any", 3)
            service.delete("/v1/streams/any")
        else:
            assert any(word in made.json()["detail"] for word in ("needs", "features alone"))
    made = service.post("/v1/streams", json=wanted("any", method="cosmic", preset="official", params={"shots": 4}))
    assert made.json()["params"]["shots"] == 4
    assert made.json()["preset"] == "official"
    service.delete("/v1/streams/any")


@pytest.mark.torch
def test_a_prompt_tuning_method_is_served_with_its_text_tower(service: TestClient) -> None:
    made = service.post("/v1/streams", json={"name": "prompts", "classes": CLASSES, "method": "tpt", "views": 4})
    assert made.status_code == 201, made.text
    first, again = (
        service.post("/v1/streams/prompts/predict?learn=false", files=[("images", photograph(3))]) for _ in range(2)
    )
    assert first.status_code == 200, first.text
    assert first.json() == again.json()  # it learns for one image at a time, and forgets
    changed = service.post("/v1/streams/prompts/classes", json={"add": ["dog"]})
    assert changed.status_code == 200, changed.text
    answers = service.post("/v1/streams/prompts/predict", files=[("images", photograph(3))]).json()
    assert len(answers["predictions"][0]["answers"]) == len(CLASSES) + 1
    service.delete("/v1/streams/prompts")
