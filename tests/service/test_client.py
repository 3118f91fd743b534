"""The client against a server process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cosmic_tta.service.client import Client, ServiceError
from tests.support.paths import ROOT
from tests.support.serving import (
    CLASSES,
    Running,
    features,
    photograph,
    samples,
    wanted,
)

pytestmark = pytest.mark.pathless
DOCUMENTATION = (ROOT / "docs/guide/service.md").read_text(encoding="utf-8")
PYTHON_EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENTATION, flags=re.DOTALL)


def test_the_python_of_the_documentation_runs_without_the_extra(running: Running, tmp_path: Path) -> None:
    for number, name in enumerate(("photo.png", "other.png")):
        (tmp_path / name).write_bytes(photograph(number))
    code = PYTHON_EXAMPLES[0].replace("http://127.0.0.1:8765", running.url)
    forbidden = "import sys\nfor name in ('fastapi', 'starlette', 'pydantic', 'PIL'): sys.modules[name] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", forbidden + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 [{'label': ")


def test_the_client_covers_every_route(running: Running, tmp_path: Path) -> None:
    client = running.client()
    stream = client.create(**wanted("spoken"))
    reply = stream.predict_features(features(samples(6)), top=1, why=True, source="roof")
    assert [one["step"] for one in reply] == [1, 2, 3, 4, 5, 6]
    stream.label({1: CLASSES[0]})
    made = stream.snapshot("kept")
    stream.pause()
    assert stream.describe()["paused"]
    stream.resume()
    stream.reset()
    stream.roll_back(made["id"])
    stream.delete_snapshot(made["id"])
    assert made["id"] not in [one["id"] for one in stream.snapshots()]
    assert stream.sources() == [{"name": "roof", "first": 1, "samples": 6}]
    assert stream.snapshots()[-1]["number"] == 0
    stream.forget_source("roof")
    assert stream.sources() == []
    stream.change_classes(rename={"cat": "tiger"})
    stream.export(tmp_path / "file")
    twin = client.import_("twin", tmp_path / "file")
    assert twin.describe(digest=True)["digest"] == stream.describe(digest=True)["digest"]
    twin.delete()
    assert "spoken" in [one["name"] for one in client.streams()]
    assert client.damaged() == []
    with pytest.raises(ServiceError, match="no damaged stream"):
        client.recover("spoken")
    assert 'stream="spoken"' in client.metrics()
    with pytest.raises(ServiceError, match="no stream") as refused:
        twin.describe()
    assert (refused.value.status, refused.value.error) == (404, "not_found")
    with pytest.raises(ServiceError, match="takes features"):
        stream.predict(b"nothing")
    stream.delete()
    with pytest.raises(ValueError, match="http://127"):
        Client("localhost:99")


def test_the_package_exports_the_client_without_the_extra() -> None:
    code = """
import sys
for name in ("fastapi", "starlette", "pydantic", "PIL", "uvicorn"):
    sys.modules[name] = None
from cosmic_tta.service import Client, ServiceError, StreamClient
print(Client.__module__, StreamClient.__name__, ServiceError.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["cosmic_tta.service.client", "StreamClient", "ServiceError"], done.stderr
