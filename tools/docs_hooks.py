"""Hooks of mkdocs: CONTRIBUTING.md becomes a page of the site, and the start page quotes parts of the README.

So what stands in both places is written once.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = "contributing.md"
# What the start page quotes as `<!-- README: name -->`; each pattern must occur in the README.
QUOTED = {
    "example": r"^## 30 seconds\n+(.*?)(?=^## )",
    "table": r"^(Accuracy in %.*?\n\n\|.*?)(?=\n\n)",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the page; its links to `docs/...` become links to pages."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(import_module("mkdocs.structure.files").File.generated(config, PAGE, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put quotations of the README in, and let links to CONTRIBUTING.md lead to its page."""
    markdown = re.sub(r"<!-- README: (\w+) -->", lambda match: quoted(match[1]), markdown)
    return re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", "](" + "../" * page.file.src_uri.count("/") + PAGE, markdown)


def quoted(name: str) -> str:
    """Return a part of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(QUOTED[name], readme, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"README.md has no part that the start page quotes as {name!r}; see tools/docs_hooks.py.")
    return found[1]
