"""Outcomes as files: every chart as PNG, PDF or SVG, every table as markdown, CSV and LaTeX, and the whole as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from cosmic_tta.charts import Chart, Outcome
from cosmic_tta.drawing.needs import require
from cosmic_tta.errors import unknown_name
from cosmic_tta.outcomes import write_outcome
from cosmic_tta.tables import FORMS

FORMATS = ("png", "pdf", "svg")
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same chart gives the same file


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Refuse a format that is not written."""
    for name in formats:
        if name not in FORMATS:
            raise unknown_name("picture format", name, FORMATS)
    return tuple(formats)


def save_outcome(outcome: Outcome, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write an outcome as JSON, its tables in every form, and its charts, where matplotlib is; return the files."""
    check_formats(formats)
    path = Path(folder)
    files = [write_outcome(outcome, path)]
    for table in outcome.tables:
        for ending, form in FORMS.items():
            files.append(path / f"{table.name}.{ending}")
            files[-1].write_text(form(table), encoding="utf-8")
    if find_spec("matplotlib") is not None:
        for chart in outcome.charts:
            files += save_chart(chart, path, formats)
    return files


def save_chart(chart: Chart, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write one chart as <folder>/<name>.<format>."""
    require("matplotlib")
    import matplotlib as mpl

    from cosmic_tta.drawing.canvas import STYLE, draw

    files = [Path(folder) / f"{chart.name}.{name}" for name in check_formats(formats)]
    with mpl.rc_context(cast(Any, dict(STYLE))):
        figure = draw(chart)
        for file, name in zip(files, formats, strict=True):
            figure.savefig(file, format=name, bbox_inches="tight", pad_inches=0.15, metadata=UNDATED.get(name))
    return files
