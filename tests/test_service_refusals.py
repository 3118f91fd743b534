"""Everything a client can send wrong is answered 4xx in one form, and changes nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import CLASSES, TEXT, features, photograph, rows, samples, served, wanted
from starlette.testclient import TestClient

from cosmic_tta.service.access import hashed, read_token
from cosmic_tta.service.settings import Settings

pytestmark = pytest.mark.pathless
TOKEN = "a-long-enough-server-token"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    small = Settings(body_bytes=1 << 20, import_bytes=1 << 20, picture_bytes=200_000, pictures=4, streams=3)
    with served(tmp_path_factory.mktemp("data") / "streams", small) as client:
        assert client.post("/v1/streams", json=wanted("s")).status_code == 201
        assert client.post("/v1/streams", json={"name": "p", "classes": CLASSES, "aux": None}).status_code == 201
        first = client.post("/v1/streams/s/predict", json={"features": features(samples(4))})
        assert first.status_code == 200
        yield client


def problem(answer: Any, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    told: dict[str, str] = answer.json()
    assert set(told) == {"error", "detail", "hint"}
    assert all(told.values())
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return told


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
def test_a_stream_that_cannot_be_made(service: TestClient, wrong: dict[str, Any]) -> None:
    before = service.get("/v1/streams").json()
    body = {**wanted("new"), **wrong}
    answer = service.post("/v1/streams", content=json.dumps(body), headers=JSON)
    problem(answer, 422)
    assert service.get("/v1/streams").json() == before


def test_a_name_that_is_taken_and_a_server_that_is_full(service: TestClient) -> None:
    assert "already" in problem(service.post("/v1/streams", json=wanted("s")), 409)["detail"]
    assert service.post("/v1/streams", json=wanted("third")).status_code == 201
    full = service.post("/v1/streams", json=wanted("fourth"))
    problem(full, 429)
    assert int(full.headers["retry-after"]) > 0
    assert service.delete("/v1/streams/third").json()["done"] == "deleted"


GOOD = rows(1)[0].tolist()
PREDICT: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", 400),
    "not UTF-8": (b'{"features": "\xff\xfe"}', 400),
    "deep": (b"[" * 100_000, 400),
    "a list": (b"[]", 422),
    "nothing": ({}, 422),
    "two kinds": ({"features": [{"clip": GOOD}], "pictures": ["aGk="]}, 422),
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
    "a picture to a stream of features": ({"pictures": [base64.b64encode(photograph()).decode()]}, 422),
    "an address": ({"urls": ["http://127.0.0.1/"]}, 422),
}


@pytest.mark.parametrize(("body", "status"), PREDICT.values(), ids=PREDICT)
def test_a_prediction_that_cannot_be_made(service: TestClient, body: Any, status: int) -> None:
    before = service.get("/v1/streams/s?digest=true").json()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    problem(service.post("/v1/streams/s/predict", content=content, headers=JSON), status)
    assert service.get("/v1/streams/s?digest=true").json() == before


def test_forms_types_and_base64_that_are_not_understood(service: TestClient) -> None:
    address = "/v1/streams/p/predict"
    before = service.get("/v1/streams/p?digest=true").json()
    good = ("pictures", photograph())
    problem(service.post(address, files=[("photo", photograph())]), 422)
    problem(service.post(address, files=[good], data={"learn": "false"}), 422)
    problem(service.post(address, files=[good] * 5), 400)
    problem(service.post(address, files=[good, ("pictures", b"no picture")]), 422)
    problem(service.post(address, files=[good, ("pictures", b"x" * 300_000)]), 413)
    problem(service.post(address, json={"pictures": ["not base64!"]}), 422)
    problem(service.post(address, json={"pictures": ["aGVsbG8="]}), 422)
    problem(service.post(address, content=b"hello", headers={"Content-Type": "text/plain"}), 415)
    problem(service.post(address, content=b"hello"), 415)
    problem(service.post(address, content=b"", headers={"Content-Type": "image/png"}), 422)
    problem(service.post(address, content=b"x", headers={"Content-Type": "multipart/form-data"}), 400)
    broken = {"Content-Type": "multipart/form-data; boundary=abc"}
    problem(service.post(address, content=b"--abc\r\nContent-Disposition: form-data; name=", headers=broken), 422)
    problem(service.post(address, json={"urls": ["http://example.org/a.png"]}), 403)
    assert service.get("/v1/streams/p?digest=true").json() == before


QUERIES = [
    "top=0",
    "top=-1",
    "top=x",
    "top=99999999999999999999",
    "learn=maybe",
    "why=2",
    "source=",
    f"source={'a' * 300}",
]


@pytest.mark.parametrize("query", QUERIES)
def test_questions_that_make_no_sense(service: TestClient, query: str) -> None:
    problem(service.post(f"/v1/streams/s/predict?{query}", json={"features": features(samples(1))}), 422)


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
def test_classes_that_cannot_be_changed(service: TestClient, change: dict[str, Any]) -> None:
    before = service.get("/v1/streams/s?digest=true").json()
    problem(service.post("/v1/streams/s/classes", json=change), 422)
    assert service.get("/v1/streams/s?digest=true").json() == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "labels", {"labels": []}),
        ("POST", "labels", {"labels": [{"step": -1, "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": "1", "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": 999, "label": "cat"}]}),
        ("POST", "labels", {"labels": [{"step": 1, "label": "dragon"}]}),
        ("POST", "roll-back", {"snapshot": "../../../etc/passwd"}),
        ("POST", "roll-back", {"snapshot": "000000000077"}),
        ("POST", "roll-back", {"snapshot": "٣"}),
        ("POST", "roll-back", {}),
        ("POST", "snapshots", {"note": "n" * 300}),
        ("POST", "undo", {"source": "nobody"}),
    ],
)
def test_other_requests_that_make_no_sense(service: TestClient, method: str, path: str, body: Any) -> None:
    problem(service.request(method, f"/v1/streams/s/{path}", json=body), 422)


TRICKS = [
    "..%2f..%2fetc%2fpasswd", "..", "%2e%2e", "%2e%2e%2f%2e%2e", ".%00", "s%00", "s%2f..", "..\\..\\windows",
    "%c0%ae%c0%ae", "....//", "s;p", "s%0d%0aX: y", "~root", "C:", "%ff", "s%20", "%2fetc%2fpasswd", "lock",
    "s?x=../", "\u202e", "S",
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_a_path_leads_nowhere_but_to_streams(service: TestClient, trick: str) -> None:
    for address in (f"/v1/streams/{trick}/export", f"/v1/streams/{trick}/snapshots"):
        answer = service.get(address)
        if "?" in trick:
            assert answer.status_code == 422  # what follows is no path, and no word that is known
        else:
            assert answer.status_code in (404, 405, 422), (address, answer.text)
    head = {"Content-Type": "application/octet-stream"}
    assert service.post("/v1/import", params={"name": trick}, content=b"x", headers=head).status_code in (400, 422)


def test_addresses_methods_and_types_that_are_not_there(service: TestClient) -> None:
    problem(service.get("/v1/streams/none"), 404)
    problem(service.get("/nothing"), 404)
    assert problem(service.put("/v1/streams"), 405)
    assert service.put("/v1/streams").headers["allow"] == "GET, POST"
    assert service.patch("/v1/streams/s").headers["allow"] == "DELETE, GET"
    problem(service.post("/v1/streams", content=b"{}"), 422)
    problem(service.post("/v1/import?name=x", content=b"{}"), 415)
    head = {"Content-Type": "application/octet-stream"}
    problem(service.post("/v1/import?name=x", content=b"no stream", headers=head), 422)
    problem(service.post("/v1/import?name=x", content=b"", headers=head), 422)
    problem(service.post("/v1/streams/s/recover"), 409)


def test_a_spoiled_export_is_refused(service: TestClient) -> None:
    file = bytearray(service.get("/v1/streams/s/export").content)
    head = {"Content-Type": "application/octet-stream"}
    for place in range(0, len(file), max(1, len(file) // 40)):
        spoiled = bytearray(file)
        spoiled[place] ^= 0x55
        problem(service.post("/v1/import?name=x", content=bytes(spoiled), headers=head), 422)
        problem(service.post("/v1/import?name=x", content=bytes(file[:place]), headers=head), 422)


def test_a_large_body_is_refused_whatever_it_says_of_its_length(service: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 65536

    problem(service.post("/v1/streams/s/predict", content=b"x" * (2 << 20), headers=JSON), 413)
    problem(service.post("/v1/streams/s/predict", content=endless(), headers=JSON), 413)
    problem(service.post("/v1/import?name=x", content=endless()), 413)


def test_pages_of_others_and_other_hosts_are_kept_out(service: TestClient) -> None:
    body = {"features": features(samples(1))}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9"},
        {"Host": "["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
    ):
        problem(service.post("/v1/streams/s/predict", json=body, headers=headers), 403)
    same = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert service.get("/v1/streams", headers=same).status_code == 200
    assert service.get("/live", headers={"Host": "localhost:80"}).status_code == 200


def test_the_servers_token_opens_all_and_a_streams_token_opens_one(tmp_path: Path) -> None:
    with served(tmp_path / "data", Settings(token=TOKEN)) as service:
        admin = {"Authorization": f"Bearer {TOKEN}"}
        assert service.get("/live").status_code == 200
        for path in ("/v1/streams", "/metrics", "/openapi.json", "/v1/streams/x", "/nothing"):
            assert service.get(path).headers.get("www-authenticate") == "Bearer"
            problem(service.get(path), 401)
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
            problem(service.get("/v1/streams", headers={"Authorization": wrong}), 401)
        made = service.post("/v1/streams", json=wanted("mine", own_token=True), headers=admin)
        own = {"Authorization": f"Bearer {made.json()['token']}"}
        service.post("/v1/streams", json=wanted("other", own_token=True), headers=admin)
        assert service.get("/v1/streams/mine", headers=own).status_code == 200
        assert service.get("/v1/streams/mine", headers=admin).status_code == 200
        problem(service.get("/v1/streams/other", headers=own), 401)
        problem(service.get("/v1/streams", headers=own), 401)
        problem(service.get("/metrics", headers=own), 401)
        problem(service.get("/v1/streams/mine"), 401)
        assert service.get("/v1/streams", headers={"Host": "cosmic.example", **admin}).status_code == 200
        kept = [file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()]
        assert any(hashed(made.json()["token"]).encode() in content for content in kept)
        assert not any(made.json()["token"].encode() in content for content in kept)


def test_a_streams_token_counts_where_the_server_has_none(service: TestClient) -> None:
    made = service.post("/v1/streams", json=wanted("locked", own_token=True)).json()
    problem(service.delete("/v1/streams/locked"), 401)
    own = {"Authorization": f"Bearer {made['token']}"}
    assert service.delete("/v1/streams/locked", headers=own).status_code == 200


def test_a_token_file_must_hold_a_real_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for wrong in ("", "short", "two words are not a token", "two\nlines-of-tokens-here"):
        file.write_text(wrong)
        with pytest.raises(ValueError, match="secrets"):
            read_token(file)
    with pytest.raises(ValueError, match="No such file"):
        read_token(tmp_path / "none")


def test_a_place_in_the_body_is_named_in_plain_words(service: TestClient) -> None:
    told = service.post("/v1/streams/s/predict", json={"features": [{"clip": [1.0, "x"]}]})
    assert told.status_code == 422
    assert "features.0.clip.1" in told.json()["detail"]
    assert "[" not in told.json()["detail"]
