"""The dashboard's files and their content policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosmic_tta.service.dashboard import static_files
from cosmic_tta.service.settings import ServiceSettings
from tests.support.serving import (
    get_json,
    served,
)

pytestmark = pytest.mark.pathless

TOKEN = "a-token-of-more-than-sixteen"


def test_the_files_need_no_token_and_the_data_does(tmp_path: Path) -> None:
    with served(tmp_path / "data", ServiceSettings(token=TOKEN)) as service:
        page = service.get("/")
        assert page.headers["content-type"].startswith("text/html")
        for name in static_files.MEDIA_TYPES:
            assert service.get(f"/page/{name}").status_code == 200
        for path in ("/v1/dashboard", "/v1/streams/s/overview", "/v1/streams/s/events", "/v1/streams/s/thumbnails/1"):
            assert service.get(path).status_code == 401
        for path in ("/page/routes.py", "/page/..%2Froutes.py", "/page/", "/page/plotly.js/x"):
            assert service.get(path).status_code in (401, 404)


def test_the_policy_is_strict_and_no_file_names_another_host(tmp_path: Path) -> None:
    with served(tmp_path / "data") as service:
        policy = service.get("/").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "eval" not in policy
        assert "trusted-types 'none'" in policy
        assert not re.search(r"https?:|\*|//", policy)
        for name in static_files.MEDIA_TYPES:
            text = service.get(f"/page/{name}").text.replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|document\.write|eval\(", text), name


def test_plotly_is_served_from_its_package_or_reported_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path / "data") as service:
        script = service.get("/page/plotly.js", headers={"Accept-Encoding": "gzip"})
        assert script.headers["content-encoding"] == "gzip"
        assert "plotly.js v" in script.text[:200]
        assert service.get("/page/plotly.js", headers={"Accept-Encoding": "identity"}).text == script.text
        assert get_json(service, "dashboard")["plotly"]
        monkeypatch.setattr(static_files, "plotly_file", lambda: None)
        missed = service.get("/page/plotly.js")
        assert missed.status_code == 404
        assert "pip install" in missed.json()["hint"]
        assert not get_json(service, "dashboard")["plotly"]
