"""Tokens of the server and of streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cosmic_tta.service.auth import hash_token, read_token
from cosmic_tta.service.settings import ServiceSettings
from tests.support.serving import (
    check_problem,
    features,
    samples,
    served,
    wanted,
)
from tests.support.session_damage import as_session_format

pytestmark = pytest.mark.pathless

TOKEN = "a-long-enough-server-token"


def test_the_servers_token_gives_access_to_all_and_a_streams_token_to_one(tmp_path: Path) -> None:
    with served(tmp_path / "data", ServiceSettings(token=TOKEN)) as service:
        admin = {"Authorization": f"Bearer {TOKEN}"}
        assert service.get("/live").status_code == 200
        for path in ("/v1/streams", "/metrics", "/openapi.json", "/v1/streams/x", "/nothing"):
            assert service.get(path).headers.get("www-authenticate") == "Bearer"
            check_problem(service.get(path), 401)
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
            check_problem(service.get("/v1/streams", headers={"Authorization": wrong}), 401)
        made = service.post("/v1/streams", json=wanted("mine", own_token=True), headers=admin)
        own = {"Authorization": f"Bearer {made.json()['token']}"}
        service.post("/v1/streams", json=wanted("other", own_token=True), headers=admin)
        assert service.get("/v1/streams/mine", headers=own).status_code == 200
        assert service.get("/v1/streams/mine", headers=admin).status_code == 200
        check_problem(service.get("/v1/streams/other", headers=own), 401)
        check_problem(service.get("/v1/streams", headers=own), 401)
        check_problem(service.get("/metrics", headers=own), 401)
        check_problem(service.get("/v1/streams/mine"), 401)
        assert service.get("/v1/streams", headers={"Host": "cosmic.example", **admin}).status_code == 200
        kept = [file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()]
        assert any(hash_token(made.json()["token"]).encode() in content for content in kept)
        assert not any(made.json()["token"].encode() in content for content in kept)


def test_a_streams_token_is_checked_on_a_server_without_one(limited_service: TestClient) -> None:
    made = limited_service.post("/v1/streams", json=wanted("locked", own_token=True)).json()
    check_problem(limited_service.delete("/v1/streams/locked"), 401)
    own = {"Authorization": f"Bearer {made['token']}"}
    assert limited_service.delete("/v1/streams/locked", headers=own).status_code == 200


def test_a_token_file_must_hold_one_long_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for wrong in ("", "short", "two words are not a token", "two\nlines-of-tokens-here"):
        file.write_text(wrong)
        with pytest.raises(ValueError, match="secrets"):
            read_token(file)
    with pytest.raises(ValueError, match="No such file"):
        read_token(tmp_path / "none")


@pytest.mark.parametrize("damage", ["format", "header"])
def test_a_stream_whose_token_cannot_be_read_needs_the_server_s(tmp_path: Path, damage: str) -> None:
    with served(tmp_path / "data") as service:
        made = service.post("/v1/streams", json=wanted("secret", own_token=True)).json()
    for path in (tmp_path / "data" / made["id"]).glob("snapshot-*"):
        content = path.read_bytes()
        path.write_bytes(as_session_format(content, 1) if damage == "format" else content[:40])
    folder = f"/v1/streams/{made['id']}"
    with served(tmp_path / "data") as service:
        for headers in ({}, {"Authorization": f"Bearer {made['token']}"}):
            refused = check_problem(service.delete(folder, headers=headers), 403)
            assert refused["hint"].startswith("Start the server with --token-file")
            assert made["id"] in refused["hint"]
            check_problem(service.post(f"{folder}/recover", headers=headers), 403)
    assert (tmp_path / "data" / made["id"]).is_dir()
    with served(tmp_path / "data", ServiceSettings(token=TOKEN)) as service:
        check_problem(service.delete(folder, headers={"Authorization": f"Bearer {made['token']}"}), 401)
        assert service.delete(folder, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert not (tmp_path / "data" / made["id"]).exists()


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
