"""One self-contained HTML page with the charts, tables and images of some result sets, and plotly's script."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cosmic_tta.core.files import write_atomic
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Table
from cosmic_tta.reporting.plotting.palette import DARK, LIGHT, THEMES
from cosmic_tta.reporting.plotting.plotly_backend import plotly_figure
from cosmic_tta.reporting.plotting.requirements import require

PIXELATED_BELOW = 96  # pixels along an edge: smaller images are not smoothed
LONG_TEXT = 24  # letters; a longer cell may be broken into lines
ORACLE = re.compile(r"\boracle\b", re.IGNORECASE)
# The browser must not fetch anything, whatever the page contains.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)


def write_page(results: Sequence[ResultSet], file: str | os.PathLike[str], title: str, lead: str = "") -> None:
    """Write result sets as one HTML page that needs no other file and no network.

    Each name in the `tags` of its tables and charts becomes a filter, with the choices in order of first appearance.
    A table or chart with that name is shown if the chosen one is among its choices.

    Args:
        results: The sections of the page.
        file: Where the page is written. A page that exists is replaced in one step.
        title: Title of the page.
        lead: Introduction below the title.

    Raises:
        InputError: plotly is not installed.
        StorageError: The disk refused to write.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> table = Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.35)])
        >>> with TemporaryDirectory() as folder:
        ...     write_page([ResultSet("mine", "My experiment", [table])], f"{folder}/page.html", "Report")
        ...     print("<h2 id=" in Path(folder, "page.html").read_text(encoding="utf-8"))
        True
    """
    require("plotly")
    write_atomic(Path(file), render_page(results, title, lead).encode("utf-8", "replace"))


def render_page(results: Sequence[ResultSet], title: str, lead: str = "") -> str:
    """Return the page as HTML."""
    from plotly.offline import get_plotlyjs

    figures: dict[str, Any] = {}
    sections = [_section(one, f"s{number}", figures) for number, one in enumerate(results)]
    links = "".join(f'<a href="#s{number}">{escape(one.title)}</a>' for number, one in enumerate(results))
    data = {"charts": figures, "palettes": {"light": LIGHT, "dark": DARK}, "themes": THEMES}
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    static = files("cosmic_tta") / "reporting" / "plotting" / "static"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">
<meta name="generator" content="cosmic-tta">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{(static / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="bar"><div><nav aria-label="Sections">{links}</nav>
<button id="theme" type="button">Dark</button></div></header>
<main id="content">
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{_filters(results)}
<noscript><p>A script in this page draws the charts. Tables and images are shown without it.</p></noscript>
{"".join(sections)}
<footer>Written by cosmic-tta. This page is self-contained and makes no network requests.</footer>
</main>
<script id="charts" type="application/json">{script}</script>
<script>{get_plotlyjs()}</script>
<script>{(static / "page.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def _filters(results: Sequence[ResultSet]) -> str:
    """Return a menu per name of a tag; empty without tags. The script of the page shows it."""
    choices: dict[str, dict[str, None]] = {}
    for one in results:
        for tags in (*(table.tags for table in one.tables), *(chart.tags for chart in one.charts)):
            for name, own in tags.items():
                choices.setdefault(name, {}).update(dict.fromkeys(own))
    menus = "".join(
        f"<label>{escape(name)} <select data-name={_quoted(name)}>"
        + "".join(f"<option>{escape(choice)}</option>" for choice in own)
        + "</select></label>"
        for name, own in choices.items()
    )
    return f'<div class="filters" role="group" aria-label="Filter" hidden>{menus}</div>' if menus else ""


def _tags(block: Table | Chart) -> str:
    """Return the tags of a table or chart as an attribute."""
    if not block.tags:
        return ""
    return f" data-tags={_quoted(json.dumps({name: list(own) for name, own in block.tags.items()}))}"


def _quoted(text: str) -> str:
    return f'"{escape(text, quote=True)}"'


def _section(results: ResultSet, name: str, figures: dict[str, Any]) -> str:
    """Return a section as HTML; the data of its charts go into `figures`."""
    remarks = "".join(f"<p>{escape(note)}</p>" for note in results.notes)
    if results.missing:
        remarks += f'<ul class="missing">{"".join(f"<li>{escape(reason)}</li>" for reason in results.missing)}</ul>'
    blocks = [_table(table) for table in results.tables]
    for number, chart in enumerate(results.charts):
        if chart.kind == "images":
            blocks.append(_gallery(chart))
        else:
            figures[f"{name}c{number}"] = plotly_figure(chart)
            blocks.append(_figure(chart, f"{name}c{number}"))
    return (
        f'<section id="{name}" aria-labelledby="{name}h"><h2 id="{name}h">{escape(results.title)}</h2>{remarks}'
        f'<div class="figures">{"".join(blocks)}</div></section>'
    )


def _heading(title: str, note: str) -> str:
    badge = '<span class="oracle-badge">oracle</span>' if ORACLE.search(title + " " + note) else ""
    return f"<h3>{escape(title)}{badge}</h3>"


def _note(note: str) -> str:
    return f'<p class="note">{escape(note)}</p>' if note else ""


def _figure(chart: Chart, name: str) -> str:
    wide = ' class="wide"' if _is_wide(chart) else ""
    label = escape(f"{chart.kind}: {chart.title}. {chart.note}", quote=True)
    return (
        f"<figure{wide}{_tags(chart)}>{_heading(chart.title, chart.note)}"
        f'<div class="plot" id="{name}" role="img" aria-label="{label}"></div>{_note(chart.note)}</figure>'
    )


def _is_wide(chart: Chart) -> bool:
    """Return whether a chart takes the whole width of the page; else two stand side by side."""
    if chart.kind == "network":
        return sum(len(series.x) for series in chart.series) > 30
    return chart.kind == "bars" or (chart.kind == "lines" and not chart.equal_axes)


def _gallery(chart: Chart) -> str:
    items = "".join(_gallery_item(pixels, caption) for pixels, caption in chart.images)
    fixed, style = (" fixed", f' style="--columns:{chart.images_per_row}"') if chart.images_per_row < 6 else ("", "")
    images = f'<ul class="gallery{fixed}"{style}>{items}</ul>'
    return f'<figure class="wide"{_tags(chart)}>{_heading(chart.title, chart.note)}{images}{_note(chart.note)}</figure>'


def _gallery_item(pixels: Any, caption: str) -> str:
    heading, *rest = caption.split("\n")
    lines = "".join(f"<span>{escape(line)}</span>" for line in rest)
    pixelated = ' class="pixelated"' if len(pixels) < PIXELATED_BELOW else ""
    alt = escape(caption.replace("\n", "; "), quote=True)
    return f'<li><img{pixelated} src="{data_url(pixels)}" alt="{alt}"><b>{escape(heading)}</b>{lines}</li>'


def data_url(pixels: Any) -> str:
    """Return an image [height, width, 3] of eight bits as a data URL with a PNG."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _table(table: Table) -> str:
    numeric = [all(_is_number(row[column]) for row in table.rows) for column in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{_number_class(is_number)}><button type="button">{escape(name)}</button></th>'
        for name, is_number in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(cell, is_number) for cell, is_number in zip(row, numeric, strict=True)) + "</tr>"
        for row in table.rows
    )
    label = escape(table.title, quote=True)
    return (
        f'<div class="table"{_tags(table)}>{_heading(table.title, table.note)}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{_note(table.note)}</div>"
    )


def _number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or cell[:1] in "+-–−0123456789"


def _cell(cell: Cell, in_number_column: bool) -> str:
    """Return a cell as HTML; `data-value` is the number by which the page sorts."""
    number_class = _number_class(in_number_column)
    if cell is None:
        return f"<td{number_class}>–</td>"
    if isinstance(cell, str):
        number = re.match(r"[+-]?\d+(\.\d+)?", cell) if in_number_column else None
        value = f' data-value="{number[0]}"' if number else ""
        css_class = number_class or f' class="{"long" if len(cell) > LONG_TEXT else "short"}"'
        return f"<td{css_class}{value}>{escape(cell)}</td>"
    text = f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}"
    return f'<td{number_class} data-value="{cell}">{text}</td>'
