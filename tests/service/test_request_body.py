"""Bodies of predict requests: JSON, forms, raw images, and what is wrong with them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from cosmic_tta.classifier import Classifier
from tests.support.serving import (
    CLASSES,
    check_problem,
    photograph,
    rows,
)

pytestmark = pytest.mark.pathless

JSON = {"Content-Type": "application/json"}
GOOD = rows(1)[0].tolist()
PREDICT: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", 400),
    "not UTF-8": (b'{"features": "\xff\xfe"}', 400),
    "deep": (b"[" * 100_000, 400),
    "a list": (b"[]", 422),
    "nothing": ({}, 422),
    "two kinds": ({"features": [{"clip": GOOD}], "images": ["aGk="]}, 422),
    "an empty list": ({"features": []}, 422),
    "too many": ({"features": [{"clip": GOOD}] * 5}, 422),
    "a stranger": ({"features": [{"clip": GOOD, "label": "cat"}]}, 422),
    "a label": ({"features": [{"clip": GOOD}], "labels": ["cat"]}, 422),
    "another width": ({"features": [{"clip": rows(1, 7)[0].tolist(), "aux": rows(1, 12)[0].tolist()}]}, 422),
    "no aux": ({"features": [{"clip": GOOD}]}, 422),
    "not unit": ({"features": [{"clip": [1.0] * 16}]}, 422),
    "zeros": ({"features": [{"clip": [0.0] * 16}]}, 422),
    "words": ({"features": [{"clip": ["a"] * 16}]}, 422),
    "truths": ({"features": [{"clip": [True] * 16}]}, 422),
    "ragged": ({"features": [{"clip": [GOOD, GOOD[:3]]}]}, 422),
    "NaN": (json.dumps({"features": [{"clip": [float("nan")] * 16}]}).encode(), 422),
    "past float32": (b'{"features": [{"clip": [1e39, 0]}]}', 422),
    "thousands of digits": (b'{"features": [{"clip": [' + b"9" * 5000 + b"]}]}", 400),
    "infinity": (b'{"features": [{"clip": [1e999, 0]}]}', 422),
    "a image to a stream of features": ({"images": [base64.b64encode(photograph()).decode()]}, 422),
    "an address": ({"urls": ["http://127.0.0.1/"]}, 422),
}


@pytest.mark.parametrize(("body", "status"), PREDICT.values(), ids=PREDICT)
def test_a_body_that_is_not_valid_is_refused_and_changes_nothing(
    limited_service: TestClient, body: Any, status: int
) -> None:
    before = limited_service.get("/v1/streams/s?digest=true").json()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    check_problem(limited_service.post("/v1/streams/s/predict", content=content, headers=JSON), status)
    assert limited_service.get("/v1/streams/s?digest=true").json() == before


def test_forms_types_and_base64_that_are_not_valid_are_refused(limited_service: TestClient) -> None:
    address = "/v1/streams/p/predict"
    before = limited_service.get("/v1/streams/p?digest=true").json()
    good = ("images", photograph())
    check_problem(limited_service.post(address, files=[("photo", photograph())]), 422)
    check_problem(limited_service.post(address, files=[good], data={"learn": "false"}), 422)
    check_problem(limited_service.post(address, files=[good] * 5), 400)
    check_problem(limited_service.post(address, files=[good, ("images", b"no image")]), 422)
    check_problem(limited_service.post(address, files=[good, ("images", b"x" * 300_000)]), 413)
    check_problem(limited_service.post(address, json={"images": ["not base64!"]}), 422)
    check_problem(limited_service.post(address, json={"images": ["aGVsbG8="]}), 422)
    check_problem(limited_service.post(address, content=b"hello", headers={"Content-Type": "text/plain"}), 415)
    check_problem(limited_service.post(address, content=b"hello"), 415)
    check_problem(limited_service.post(address, content=b"", headers={"Content-Type": "image/png"}), 422)
    check_problem(limited_service.post(address, content=b"x", headers={"Content-Type": "multipart/form-data"}), 400)
    broken = {"Content-Type": "multipart/form-data; boundary=abc"}
    check_problem(
        limited_service.post(address, content=b"--abc\r\nContent-Disposition: form-data; name=", headers=broken), 422
    )
    check_problem(limited_service.post(address, json={"urls": ["http://example.org/a.png"]}), 403)
    assert limited_service.get("/v1/streams/p?digest=true").json() == before


def test_four_forms_of_an_image_give_the_same_prediction(service: TestClient) -> None:
    made = service.post("/v1/streams", json={"name": "seen", "classes": CLASSES})
    assert made.status_code == 201, made.text
    assert made.json()["encoder"] == "mini:clip"
    assert made.json()["aux"] == "mini:dino"
    image = photograph(3)
    text = base64.b64encode(image).decode()
    address = "/v1/streams/seen/predict?learn=false"
    answers = [
        service.post(address, files=[("images", image)]),
        service.post(address, json={"images": [text]}),
        service.post(address, json={"images": [f"data:image/png;base64,{text}"]}),
        service.post(address, content=image, headers={"Content-Type": "image/png"}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    expected = Classifier(CLASSES)(image, learn=False)
    for answer in answers:
        reply = answer.json()["predictions"]
        assert [one["label"] for one in reply[0]["answers"]] == [one["label"] for one in expected]
        assert reply[0]["answers"][0]["score"] == pytest.approx(expected[0]["score"], abs=1e-4)
        assert reply[0]["step"] is None
    several = service.post("/v1/streams/seen/predict?top=1", files=[("images", photograph(n)) for n in range(5)])
    reply = several.json()["predictions"]
    assert [one["step"] for one in reply] == [1, 2, 3, 4, 5]
    assert all(one["learned"] and len(one["answers"]) == 1 for one in reply)
    assert service.get("/v1/streams/seen").json()["seen"] == 5
    service.delete("/v1/streams/seen")
