"""The page's own files, and plotly.js from the installed wheel. Nothing comes from another host."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

SCRIPT = "text/javascript; charset=utf-8"
MODULES = ("page", "asking", "building", "charts", "graph", "labelling", "stream", "creating")
KINDS = {
    "index.html": "text/html; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "page.css": "text/css; charset=utf-8",
    **{f"{name}.js": SCRIPT for name in MODULES},
}
# plotly.js brings style elements of its own, so those may be inline; scripts and style attributes may not, nothing is
# evaluated, and no text ever becomes markup (trusted types, with no policy that could make it so).
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; style-src-elem 'self' 'unsafe-inline'; "
    "style-src-attr 'none'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


def content(name: str) -> bytes:
    """Return one of the page's files."""
    return (files("cosmic_tta") / "service" / "page" / name).read_bytes()


def plotly_file() -> Path | None:
    """Where the installed plotly keeps its script; None if it is not installed."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    script = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return script if script.is_file() else None


@cache
def plotly_packed() -> bytes:
    """Return plotly.js compressed, made once."""
    script = plotly_file()
    assert script is not None  # or nobody would ask
    return gzip.compress(script.read_bytes(), 5)
