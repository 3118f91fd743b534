"""Hooks of mkdocs: CONTRIBUTING.md, which stands outside `docs`, becomes a page of the site."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
PAGE = "contributing.md"


def on_files(files: Any, config: Any) -> Any:
    """Add the page; its links to `docs/...` become links to pages."""
    text = SOURCE.read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(import_module("mkdocs.structure.files").File.generated(config, PAGE, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to the file lead to the page."""
    return re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", "](" + "../" * page.file.src_uri.count("/") + PAGE, markdown)
