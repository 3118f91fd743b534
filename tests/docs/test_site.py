"""The site builds without a warning and asks no other host for anything; needs the extra `docs`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.pathless


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]+src=[\"']?(?:https?:)?//", html), page
        for link in re.findall(r"<link[^>]+>", html):
            assert not re.search(r"href=[\"']?(?:https?:)?//", link) or "canonical" in link, (page, link)


def test_examples_of_docstrings_are_fenced() -> None:
    pytest.importorskip("griffe")
    code = "from griffe_pages import fenced; print(fenced('Add.\\n\\n>>> 1 + 1\\n2\\n\\nEnd.'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    assert done.stdout == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd.\n"
