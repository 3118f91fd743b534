"""The site builds without a warning, asks no other host for anything, and has an entry for every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import cosmic_tta
from cosmic_tta.core import errors
from cosmic_tta.core.errors import CosmicError
from tests.support.paths import ROOT

pytestmark = pytest.mark.pathless
PACKAGES = sorted(f"cosmic_tta.{module.name}" for module in iter_modules(cosmic_tta.__path__) if module.ispkg)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]+src=[\"']?(?:https?:)?//", html), page
        for link in re.findall(r"<link[^>]+>", html):
            assert not re.search(r"href=[\"']?(?:https?:)?//", link) or "canonical" in link, (page, link)


def test_the_start_page_quotes_the_readme(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert "superclass_pack" in html
    assert "CLIP RN50" in html
    assert "README:" not in html


def entries(site: Path) -> set[str]:
    """Return the names that the API reference has an entry for."""
    pages = [page.read_text(encoding="utf-8") for page in (site / "reference" / "python").glob("*.html")]
    return {name.rpartition(".")[2] for page in pages for name in re.findall(r'id="(cosmic_tta\.[\w.]+)"', page)}


def test_the_reference_has_every_public_name(site: Path) -> None:
    found = entries(site)
    for package in ("cosmic_tta", *PACKAGES):
        public = set(getattr(import_module(package), "__all__", ()))
        assert public - found == set(), package


def test_the_reference_has_every_error(site: Path) -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, CosmicError)}
    assert len(kinds) > 10
    assert kinds | {"ContractError", "ServiceError"} <= entries(site)


def printed(code: str) -> str:
    """Run code with the tools importable; return what it prints."""
    pytest.importorskip("griffe")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    return done.stdout


def test_examples_of_docstrings_are_fenced_under_one_heading() -> None:
    code = "from griffe_pages import fenced; print(fenced('Add.\\n\\n{}>>> 1 + 1\\n2\\n\\nEnd.'))"
    assert printed(code.format("")) == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd.\n"
    assert printed(code.format("Example:\\n")).startswith("Add.\n\nExamples:\n```pycon\n")


def test_the_help_of_parameters_stands_before_the_examples() -> None:
    code = "from griffe_pages import with_arguments; print(with_arguments({!r}, {!r}))"
    args = {"shots": "slots per class"}
    assert printed(code.format("Add.\n\nExamples:\n    x", args)) == (
        "Add.\n\nArgs:\n    shots: slots per class\n\nExamples:\n    x\n"
    )
    assert printed(code.format("Add.\n\nArgs:\n    shots: slots", args)) == "Add.\n\nArgs:\n    shots: slots\n"
