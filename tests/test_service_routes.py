"""Every route of the service, in this process."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import CLASSES, features, photograph, rows, samples, served, wanted
from starlette.testclient import TestClient
from tiny import TinyEncoder

from cosmic_tta.classifier import Classifier
from cosmic_tta.core import Task
from cosmic_tta.guards import Guard
from cosmic_tta.methods import make_method
from cosmic_tta.service.fetching import Fetcher
from cosmic_tta.service.settings import Settings
from cosmic_tta.session import Session

Json = dict[str, Any]
pytestmark = pytest.mark.pathless


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("data") / "streams") as client:
        yield client


@pytest.fixture
def stream(service: TestClient) -> Iterator[str]:
    """A fresh stream of features."""
    made = service.post("/v1/streams", json=wanted("fresh"))
    assert made.status_code == 201, made.text
    yield "/v1/streams/fresh"
    service.delete("/v1/streams/fresh")


def learn(service: TestClient, stream: str, count: int = 5, seed: int = 0, **query: Any) -> list[Json]:
    answer = service.post(f"{stream}/predict", json={"features": features(samples(count, seed))}, params=query)
    assert answer.status_code == 200, answer.text
    predictions: list[Json] = answer.json()["predictions"]
    return predictions


def digest(service: TestClient, stream: str) -> str:
    told = service.get(stream, params={"digest": "true"})
    assert told.status_code == 200, told.text
    return str(told.json()["digest"])


def test_live_ready_and_metrics_tell_of_a_stream(service: TestClient, stream: str) -> None:
    assert service.get("/live").json() == {"status": "live"}
    assert service.get("/ready").json() == {"status": "ready"}
    learn(service, stream, 3)
    figures = service.get("/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    assert 'cosmic_steps_total{learned="true",stream="fresh"} 3.0' in figures.text
    assert 'route="/v1/streams/{stream}/predict"' in figures.text
    service.delete(stream)
    assert "fresh" not in service.get("/metrics").text


def test_a_stream_answers_what_the_engine_answers(service: TestClient, stream: str, tmp_path: Path) -> None:
    given = samples(40)
    method = make_method("bayes_means")
    text = wanted()["text"]
    state = method.init(Task(tuple(CLASSES), text))
    expected = [method.step(state, sample).scores for sample in given]
    for start in range(0, 40, 8):
        body = {"features": features(given[start : start + 8])}
        answers = service.post(f"{stream}/predict", json=body).json()["predictions"]
        for told, scores in zip(answers, expected[start : start + 8], strict=True):
            assert {one["label"]: one["score"] for one in told["answers"]} == {
                name: float(score) for name, score in zip(CLASSES, scores, strict=True)
            }
            shown = [one["score"] for one in told["answers"]]
            assert shown == sorted(shown, reverse=True)


def test_the_digest_is_that_of_a_session_beside(service: TestClient, stream: str, tmp_path: Path) -> None:
    learn(service, stream, 30)
    method = make_method("bayes_means")
    about = {"preset": "default", "views": 1, "seed": 0}
    beside = Session.create(
        tmp_path / "s", "other", Task(tuple(CLASSES), wanted()["text"]), method, about=about, guard=Guard()
    )
    with beside:
        beside.step(samples(30))
        assert digest(service, stream) == beside.digest()


def test_pictures_come_in_four_ways_and_are_answered_alike(service: TestClient) -> None:
    made = service.post("/v1/streams", json={"name": "seen", "classes": CLASSES})
    assert made.status_code == 201, made.text
    assert made.json()["encoder"] == "mini:clip"
    assert made.json()["aux"] == "mini:dino"
    picture = photograph(3)
    text = base64.b64encode(picture).decode()
    address = "/v1/streams/seen/predict?learn=false"
    answers = [
        service.post(address, files=[("pictures", picture)]),
        service.post(address, json={"pictures": [text]}),
        service.post(address, json={"pictures": [f"data:image/png;base64,{text}"]}),
        service.post(address, content=picture, headers={"Content-Type": "image/png"}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    expected = Classifier(CLASSES)(picture, learn=False)
    for answer in answers:
        told = answer.json()["predictions"]
        assert [one["label"] for one in told[0]["answers"]] == [one["label"] for one in expected]
        assert told[0]["answers"][0]["score"] == pytest.approx(expected[0]["score"], abs=1e-4)
        assert told[0]["step"] is None
    several = service.post("/v1/streams/seen/predict?top=1", files=[("pictures", photograph(n)) for n in range(5)])
    told = several.json()["predictions"]
    assert [one["step"] for one in told] == [1, 2, 3, 4, 5]
    assert all(one["learned"] and len(one["answers"]) == 1 for one in told)
    assert service.get("/v1/streams/seen").json()["seen"] == 5
    service.delete("/v1/streams/seen")


def test_looking_changes_nothing_and_why_is_told_on_request(service: TestClient, stream: str) -> None:
    learn(service, stream, 10)
    before = digest(service, stream)
    looked = learn(service, stream, 4, seed=7, learn="false", why="true", top=2)
    assert digest(service, stream) == before
    assert all(one["step"] is None and not one["learned"] and len(one["answers"]) == 2 for one in looked)
    assert all("class_mass" in one["why"] for one in looked)
    assert learn(service, stream, 1, learn="false")[0]["why"] is None


def test_late_labels_are_for_the_monitor_alone(service: TestClient, stream: str) -> None:
    answers = learn(service, stream, 6)
    before = learn(service, stream, 3, seed=5, learn="false")
    pairs = [{"step": one["step"], "label": one["answers"][0]["label"]} for one in answers[:4]]
    pairs.append({"step": answers[4]["step"], "label": answers[4]["answers"][-1]["label"]})
    told = service.post(f"{stream}/labels", json={"labels": pairs})
    assert told.status_code == 200, told.text
    monitor = service.get(stream).json()["monitor"]
    assert (monitor["labelled"], monitor["right"]) == (5, 4)
    assert monitor["accuracy"] == pytest.approx(0.8)
    assert learn(service, stream, 3, seed=5, learn="false") == before


def test_a_wrong_label_leaves_the_right_ones_beside_it_unwritten(service: TestClient, stream: str) -> None:
    step = learn(service, stream, 1)[0]["step"]
    for wrong in ({"step": step, "label": "dragon"}, {"step": 10_000, "label": "cat"}):
        told = service.post(f"{stream}/labels", json={"labels": [{"step": step, "label": "cat"}, wrong]})
        assert told.status_code == 422
    assert service.get(stream).json()["monitor"]["labelled"] == 0


def test_a_paused_stream_answers_and_learns_nothing(service: TestClient, stream: str) -> None:
    learn(service, stream, 5)
    assert service.post(f"{stream}/pause").json()["done"] == "paused"
    told = learn(service, stream, 5, seed=4)
    assert not any(one["learned"] for one in told)
    info = service.get(stream).json()
    assert info["paused"]
    assert info["seen"] == 5
    service.post(f"{stream}/resume")
    assert learn(service, stream, 1)[0]["reason"] == "duplicate"
    assert learn(service, stream, 1, seed=9)[0]["learned"]


def test_snapshots_are_made_listed_and_gone_back_to(service: TestClient, stream: str) -> None:
    learn(service, stream, 8)
    made = service.post(f"{stream}/snapshots", json={"note": "before the rain"})
    assert made.status_code == 201
    known = learn(service, stream, 3, seed=50, learn="false")
    learn(service, stream, 8, seed=1)
    assert learn(service, stream, 3, seed=50, learn="false") != known
    listed = service.get(f"{stream}/snapshots").json()["snapshots"]
    assert [one["note"] for one in listed if one["id"] == made.json()["id"]] == ["before the rain"]
    back = service.post(f"{stream}/roll-back", json={"snapshot": made.json()["id"]})
    assert back.status_code == 200, back.text
    assert learn(service, stream, 3, seed=50, learn="false") == known
    gone = service.post(f"{stream}/roll-back", json={"snapshot": "000000009999"})
    assert gone.status_code == 422
    assert learn(service, stream, 3, seed=50, learn="false") == known


def test_reset_forgets(service: TestClient, stream: str) -> None:
    fresh = learn(service, stream, 3, seed=50, learn="false")
    learn(service, stream, 20)
    assert learn(service, stream, 3, seed=50, learn="false") != fresh
    service.post(f"{stream}/reset")
    assert service.get(stream).json()["seen"] == 0
    assert learn(service, stream, 3, seed=50, learn="false") == fresh


def test_a_source_is_undone_as_if_it_had_never_come(service: TestClient, stream: str) -> None:
    service.post("/v1/streams", json=wanted("clean"))
    for number in range(4):
        learn(service, stream, 3, seed=number, source="roof")
        learn(service, "/v1/streams/clean", 3, seed=number, source="roof")
        learn(service, stream, 2, seed=100 + number, source="vandal")
    assert service.post(f"{stream}/undo", json={"source": "vandal"}).status_code == 200
    same = learn(service, "/v1/streams/clean", 5, 77, learn="false")
    assert learn(service, stream, 5, 77, learn="false") == same
    assert service.post(f"{stream}/undo", json={"source": "nobody"}).status_code == 422
    service.delete("/v1/streams/clean")


def test_an_export_is_imported_under_another_name(service: TestClient, stream: str) -> None:
    learn(service, stream, 12)
    file = service.get(f"{stream}/export")
    assert file.headers["content-type"] == "application/octet-stream"
    head = {"Content-Type": "application/octet-stream"}
    made = service.post("/v1/import?name=twin", content=file.content, headers=head)
    assert made.status_code == 201, made.text
    assert digest(service, "/v1/streams/twin") == digest(service, stream)
    assert learn(service, "/v1/streams/twin", 4, seed=3) == learn(service, stream, 4, seed=3)
    again = service.post("/v1/import?name=twin", content=file.content, headers=head)
    assert again.status_code == 409
    service.delete("/v1/streams/twin")


def test_classes_are_added_removed_and_renamed_in_one_go(service: TestClient, stream: str) -> None:
    learn(service, stream, 12)
    row = rows(1, seed=5)[0].tolist()
    change = {"add": ["owl"], "remove": ["cat"], "rename": {"ship": "boat"}, "text": {"owl": row}}
    told = service.post(f"{stream}/classes", json=change)
    assert told.status_code == 200, told.text
    assert told.json()["classes"] == ["airplane", "boat", "truck", "owl"]
    assert told.json()["seen"] == 12
    assert {one["label"] for one in learn(service, stream, 1)[0]["answers"]} == {"airplane", "boat", "truck", "owl"}


def test_classes_of_a_stream_with_an_encoder_are_encoded_here(service: TestClient) -> None:
    asked = {"name": "named", "classes": ["cat", "ship"], "templates": ["a blurry photo of a {}."]}
    assert service.post("/v1/streams", json=asked).status_code == 201
    told = service.post("/v1/streams/named/classes", json={"add": ["truck"], "rename": {"ship": "boat"}})
    assert told.status_code == 200, told.text
    assert told.json()["classes"] == ["cat", "boat", "truck"]
    looked = service.post("/v1/streams/named/predict", files=[("pictures", photograph(0))])
    assert looked.status_code == 200
    kept = service.post("/v1/streams/named/classes", json={"rename": {"boat": "vessel"}, "keep_text": True})
    assert kept.status_code == 200
    service.delete("/v1/streams/named")


def test_streams_come_back_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json=wanted("a"))
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES})
        learn(service, "/v1/streams/a", 20)
        service.post("/v1/streams/b/predict", files=[("pictures", photograph(n)) for n in range(4)])
        before = {name: digest(service, f"/v1/streams/{name}") for name in "ab"}
    with served(tmp_path / "data") as service:
        listed = service.get("/v1/streams").json()
        assert [one["name"] for one in listed["streams"]] == ["a", "b"]
        assert listed["damaged"] == []
        assert {name: digest(service, f"/v1/streams/{name}") for name in "ab"} == before
        again = service.post("/v1/streams/b/predict", files=[("pictures", photograph(9))])
        assert again.json()["predictions"][0]["step"] == 5


def test_a_damaged_stream_is_shown_and_the_others_go_on(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        for name in ("good", "bad"):
            identity = service.post("/v1/streams", json=wanted(name)).json()["id"]
            for number in range(6):
                learn(service, f"/v1/streams/{name}", 1, number)
    journal = max((tmp_path / "data" / identity).glob("*.log"))
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 255
    journal.write_bytes(content)
    with served(tmp_path / "data") as service:
        listed = service.get("/v1/streams").json()
        assert [one["name"] for one in listed["streams"]] == ["good"]
        assert [(one["id"], one["name"]) for one in listed["damaged"]] == [(identity, "bad")]
        assert service.get("/v1/streams/bad").json()["error"] == "damaged"
        assert str(tmp_path) not in str(listed)
        refused = service.get(f"/v1/streams/{identity}")
        assert refused.status_code == 409
        assert refused.json()["error"] == "damaged"
        assert learn(service, "/v1/streams/good", 1)[0]["step"] == 7
        recovered = service.post(f"/v1/streams/{identity}/recover")
        assert recovered.status_code == 200, recovered.text
        assert recovered.json()["number"] == listed["damaged"][0]["recoverable"] < 6
        assert learn(service, "/v1/streams/bad", 1, seed=9)[0]["learned"]


def test_a_damaged_stream_keeps_its_token(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        made = service.post("/v1/streams", json=wanted("secret", own_token=True)).json()
        bearer = {"Authorization": f"Bearer {made['token']}"}
        for number in range(6):
            body = {"features": features(samples(1, number))}
            assert service.post("/v1/streams/secret/predict", json=body, headers=bearer).status_code == 200
    journal = max((tmp_path / "data" / made["id"]).glob("*.log"))
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 255
    journal.write_bytes(content)
    with served(tmp_path / "data") as service:
        for path in ("secret", made["id"]):
            assert service.post(f"/v1/streams/{path}/recover").status_code == 401
            assert service.delete(f"/v1/streams/{path}").status_code == 401
        assert service.post("/v1/streams/secret/recover", headers=bearer).status_code == 200
        assert service.get("/v1/streams/secret").status_code == 401
        assert service.get("/v1/streams/secret", headers=bearer).json()["number"] < 6


def test_snapshots_can_be_removed_and_sources_listed(service: TestClient, stream: str) -> None:
    body = {"features": features(samples(3))}
    assert service.post(f"{stream}/predict", json=body, params={"source": "roof"}).status_code == 200
    noted = service.post(f"{stream}/snapshots", json={"note": "keep me"}).json()["id"]
    learn(service, stream, 2, seed=7)
    service.post(f"{stream}/snapshots", json={})
    assert service.delete(f"{stream}/snapshots/{noted}").json()["done"] == "removed"
    assert noted not in {one["id"] for one in service.get(f"{stream}/snapshots").json()["snapshots"]}
    assert service.delete(f"{stream}/snapshots/{noted}").status_code in (404, 409, 422)
    assert service.get(f"{stream}/sources").json()["sources"] == [{"name": "roof", "first": 1, "samples": 3}]


def test_a_word_that_means_nothing_is_refused_before_anything_is_learned(service: TestClient, stream: str) -> None:
    before = digest(service, stream)
    refused = service.post(f"{stream}/predict", json={"features": features(samples(1))}, params={"lern": "false"})
    assert refused.status_code == 422
    assert "lern" in refused.json()["detail"]
    assert "learn" in refused.json()["hint"]
    assert digest(service, stream) == before


def test_a_full_disk_is_told_and_the_stream_goes_on(
    service: TestClient, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(service, stream, 5)
    before = digest(service, stream)

    def full(handle: int, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("cosmic_tta.disk.write_all", full)
        for path, body in (
            ("predict", {"features": features(samples(2))}),
            ("labels", {"labels": [{"step": 1, "label": "cat"}]}),
            ("classes", {"rename": {"cat": "lion"}}),
            ("pause", None),
            ("reset", None),
        ):
            answer = service.post(f"{stream}/{path}", json=body)
            assert answer.status_code == 507, (path, answer.text)
            assert answer.json()["detail"] == "the server's disk refused: No space left on device."
        looked = service.post(f"{stream}/predict?learn=false", json={"features": features(samples(2))})
        assert looked.status_code == 200
    assert digest(service, stream) == before
    assert learn(service, stream, 1)[0]["step"] == 6


def test_a_full_queue_is_told_to_come_back_and_still_can_be_steered(
    service: TestClient, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = service.app
    with monkeypatch.context() as full:
        full.setattr(app.state.host.lanes["fresh"], "_bound", 0)
        answer = service.post(f"{stream}/predict", json={"features": features(samples(1))})
        assert answer.status_code == 429
        assert answer.headers["retry-after"].isdigit()
        assert set(answer.json()) == {"error", "detail", "hint"}
        assert service.post(f"{stream}/pause").status_code == 200
    assert service.get(stream).json()["number"] == 1


def test_a_session_that_an_error_closed_is_opened_again(service: TestClient, stream: str) -> None:
    learn(service, stream, 5)
    before = digest(service, stream)
    app: Any = service.app
    app.state.host.lanes["fresh"].session.abandon()
    assert digest(service, stream) == before
    assert learn(service, stream, 1)[0]["step"] == 6


def test_a_stream_whose_encoder_is_not_served_takes_features_alone(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES, "aux": None})
    with served(tmp_path / "data", Settings(encoders=("mini:dino",))) as service:
        assert "mini:clip" in service.get("/v1/streams/b").json()["problem"]
        refused = service.post("/v1/streams/b/predict", files=[("pictures", photograph(0))])
        assert refused.status_code == 409
        width = Classifier(CLASSES, aux=None).clip.dim
        body = {"features": [{"clip": rows(1, width)[0].tolist()}]}
        assert service.post("/v1/streams/b/predict", json=body).status_code == 200


def test_other_weights_are_not_taken_for_those_that_a_stream_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "b", "classes": CLASSES, "aux": None})
    monkeypatch.setattr("cosmic_tta.service.encoding.load_here", lambda name, kind, threads: TinyEncoder())
    with served(tmp_path / "data") as service:
        assert "weights of mini:clip are not those" in service.get("/v1/streams/b").json()["problem"]
        refused = service.post("/v1/streams/b/predict", files=[("pictures", photograph(0))])
        assert refused.status_code == 409
        assert service.get("/v1/streams/b").json()["seen"] == 0


def test_pictures_are_fetched_from_hosts_that_were_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get(self: Fetcher, split: Any, deadline: float) -> tuple[int, str, bytes]:
        asked.append(split.geturl())
        return 200, "", photograph(len(asked))

    with served(tmp_path / "data", Settings(fetch_from=("pictures.example",), threads=1)) as service:
        assert service.post("/v1/streams", json={"name": "f", "classes": CLASSES, "aux": None}).status_code == 201
        inside = service.post("/v1/streams/f/predict", json={"urls": ["http://169.254.169.254/latest/"]})
        assert inside.status_code == 403
        monkeypatch.setattr(Fetcher, "_get", get)
        urls = ["http://pictures.example/1.png", "https://pictures.example/2.png"]
        answer = service.post("/v1/streams/f/predict", json={"urls": urls})
        assert answer.status_code == 200, answer.text
        assert asked == urls
        assert [one["step"] for one in answer.json()["predictions"]] == [1, 2]
        assert service.post("/v1/streams/f/predict", json={"urls": [*urls, "http://other.example/"]}).status_code == 403
        assert service.get("/v1/streams/f").json()["seen"] == 2


def test_every_method_is_served_or_kindly_refused(service: TestClient) -> None:
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


def test_the_description_has_every_route_an_example_and_the_form_of_errors(service: TestClient) -> None:
    told = service.get("/openapi.json").json()
    assert len([path for path in told["paths"] if path.startswith("/v1/")]) >= 14
    for path, methods in told["paths"].items():
        for method in methods.values():
            assert method["summary"], path
            if path.startswith("/v1/"):
                assert method["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("Problem")
    schemas = told["components"]["schemas"]
    assert schemas["CreateStream"]["examples"]
    assert schemas["PredictBody"]["examples"]
    assert set(schemas["Problem"]["properties"]) == {"error", "detail", "hint"}


@pytest.mark.torch
def test_a_method_that_learns_prompts_is_served_with_its_tower(service: TestClient) -> None:
    made = service.post("/v1/streams", json={"name": "prompts", "classes": CLASSES, "method": "tpt", "views": 4})
    assert made.status_code == 201, made.text
    first, again = (
        service.post("/v1/streams/prompts/predict?learn=false", files=[("pictures", photograph(3))]) for _ in range(2)
    )
    assert first.status_code == 200, first.text
    assert first.json() == again.json()  # it learns for one picture at a time, and forgets
    changed = service.post("/v1/streams/prompts/classes", json={"add": ["dog"]})
    assert changed.status_code == 200, changed.text
    answers = service.post("/v1/streams/prompts/predict", files=[("pictures", photograph(3))]).json()
    assert len(answers["predictions"][0]["answers"]) == len(CLASSES) + 1
    service.delete("/v1/streams/prompts")
