"""One page that needs nothing but a browser: every chart, table and picture of some outcomes, and plotly within it."""

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

from cosmic_tta.charts import Cell, Chart, Outcome, Table
from cosmic_tta.drawing.needs import require
from cosmic_tta.drawing.palette import DARK, INKS, LIGHT
from cosmic_tta.drawing.plots import plot

SMALL = 96  # pictures below this edge are shown as they are, pixel by pixel
ORACLE = re.compile(r"\boracle\b", re.IGNORECASE)
# The browser is told to fetch nothing, whatever is on the page.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)


def write_page(outcomes: Sequence[Outcome], file: str | os.PathLike[str], title: str, lead: str = "") -> None:
    """Write the page; it is there whole, or the one before it still is."""
    require("plotly")
    path = Path(file)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_text(page(outcomes, title, lead), encoding="utf-8", errors="replace")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def page(outcomes: Sequence[Outcome], title: str, lead: str = "") -> str:
    """Return the page as HTML."""
    from plotly.offline import get_plotlyjs

    charts: dict[str, Any] = {}
    sections = [_section(outcome, f"s{number}", charts) for number, outcome in enumerate(outcomes)]
    links = "".join(f'<a href="#s{number}">{escape(outcome.title)}</a>' for number, outcome in enumerate(outcomes))
    data = {"charts": charts, "colours": {"light": LIGHT, "dark": DARK}, "inks": INKS}
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    beside = files("cosmic_tta") / "drawing"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="generator" content="cosmic-tta">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{(beside / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header class="bar"><div><nav aria-label="Sections">{links}</nav>
<button id="theme" type="button">Dark</button></div></header>
<main id="content">
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
<noscript><p>The charts are drawn by a script within this page; tables and pictures are there without it.</p></noscript>
{"".join(sections)}
<footer>Written by cosmic-tta. This page holds all it shows and asks no other machine.</footer>
</main>
<script id="charts" type="application/json">{script}</script>
<script>{get_plotlyjs()}</script>
<script>{(beside / "page.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def _section(outcome: Outcome, name: str, charts: dict[str, Any]) -> str:
    told = "".join(f"<p>{escape(note)}</p>" for note in outcome.notes)
    if outcome.missing:
        told += f'<ul class="missing">{"".join(f"<li>{escape(reason)}</li>" for reason in outcome.missing)}</ul>'
    shown = [_table(table) for table in outcome.tables]
    for number, chart in enumerate(outcome.charts):
        if chart.kind == "pictures":
            shown.append(_gallery(chart))
        else:
            charts[f"{name}c{number}"] = plot(chart)
            shown.append(_figure(chart, f"{name}c{number}"))
    return (
        f'<section id="{name}" aria-labelledby="{name}h"><h2 id="{name}h">{escape(outcome.title)}</h2>{told}'
        f'<div class="figures">{"".join(shown)}</div></section>'
    )


def _title(title: str, note: str) -> str:
    stamp = '<span class="stamp">oracle</span>' if ORACLE.search(title + " " + note) else ""
    return f"<h3>{escape(title)}{stamp}</h3>"


def _note(note: str) -> str:
    return f'<p class="note">{escape(note)}</p>' if note else ""


def _figure(chart: Chart, name: str) -> str:
    wide = ' class="wide"' if _is_wide(chart) else ""
    told = escape(f"{chart.kind}: {chart.title}. {chart.note}", quote=True)
    return (
        f"<figure{wide}>{_title(chart.title, chart.note)}"
        f'<div class="plot" id="{name}" role="img" aria-label="{told}"></div>{_note(chart.note)}</figure>'
    )


def _is_wide(chart: Chart) -> bool:
    """Whether a chart needs the width of the page, or can have another beside it."""
    if chart.kind == "network":
        return sum(len(series.x) for series in chart.series) > 30
    return chart.kind == "bars" or (chart.kind == "lines" and not chart.square)


def _gallery(chart: Chart) -> str:
    cards = "".join(_card(pixels, caption) for pixels, caption in chart.pictures)
    few, style = (" few", f' style="--columns:{chart.per_row}"') if chart.per_row < 6 else ("", "")
    shown = f'<ul class="gallery{few}"{style}>{cards}</ul>'
    return f'<figure class="wide">{_title(chart.title, chart.note)}{shown}{_note(chart.note)}</figure>'


def _card(pixels: Any, caption: str) -> str:
    head, *rest = caption.split("\n")
    lines = "".join(f"<span>{escape(line)}</span>" for line in rest)
    small = ' class="small"' if len(pixels) < SMALL else ""
    alt = escape(caption.replace("\n", "; "), quote=True)
    return f'<li><img{small} src="{data_address(pixels)}" alt="{alt}"><b>{escape(head)}</b>{lines}</li>'


def data_address(pixels: Any) -> str:
    """Return a picture [height, width, 3] in eight bits as an address that holds it."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _table(table: Table) -> str:
    numeric = [all(_is_number(row[place]) for row in table.rows) for place in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{_class(right)}><button type="button">{escape(name)}</button></th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(cell, right) for cell, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in table.rows
    )
    label = escape(table.title, quote=True)
    return (
        f'<div class="table">{_title(table.title, table.note)}<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{label}"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{_note(table.note)}</div>"
    )


def _class(right: bool) -> str:
    return ' class="number"' if right else ""


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or cell[:1] in "+-–−0123456789"


def _cell(cell: Cell, right: bool) -> str:
    if cell is None:
        return f"<td{_class(right)}>–</td>"
    if isinstance(cell, str):
        number = re.match(r"[+-]?\d+(\.\d+)?", cell) if right else None
        value = f' data-value="{number[0]}"' if number else ""
        kind = _class(right) or f' class="{"long" if len(cell) > 24 else "short"}"'
        return f"<td{kind}{value}>{escape(cell)}</td>"
    text = f"{cell:,}" if isinstance(cell, int) else f"{cell:.2f}"
    return f'<td{_class(right)} data-value="{cell}">{text}</td>'
