"""The dashboard's own files, and plotly.js from the installed package. No file comes from another host."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

COMPRESSION_LEVEL = 5
SCRIPT = "text/javascript; charset=utf-8"
TYPES = {".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".css": "text/css; charset=utf-8", ".js": SCRIPT}
FOLDER = files("cosmic_tta") / "service" / "dashboard" / "static"
# Media type by file name. Only these names are served, so a request cannot name another file.
MEDIA_TYPES = {file.name: TYPES[Path(file.name).suffix] for file in FOLDER.iterdir() if file.is_file()}
# plotly.js adds style elements, so these may be inline. Inline scripts, style attributes, eval and turning text into
# markup (trusted types) are forbidden.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; style-src-elem 'self' 'unsafe-inline'; "
    "style-src-attr 'none'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


def read_file(name: str) -> bytes:
    """Return the content of one of the dashboard's files."""
    return (FOLDER / name).read_bytes()


def plotly_file() -> Path | None:
    """Return the path of plotly.js, or None if plotly is not installed."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    script = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return script if script.is_file() else None


@cache
def compressed_plotly() -> bytes:
    """Return plotly.js, compressed once."""
    script = plotly_file()
    assert script is not None  # callers check `plotly_file` first
    return gzip.compress(script.read_bytes(), COMPRESSION_LEVEL)
