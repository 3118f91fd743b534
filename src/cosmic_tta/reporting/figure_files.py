"""Result sets for papers: charts as PNG, PDF or SVG, tables as markdown, CSV and LaTeX, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from cosmic_tta.core.errors import unknown_name
from cosmic_tta.reporting.chart_data import Chart, ResultSet
from cosmic_tta.reporting.plotting.requirements import require
from cosmic_tta.reporting.result_files import write_result_set
from cosmic_tta.reporting.tables import TABLE_FORMATS

FIGURE_FORMATS = ("png", "pdf", "svg")
NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same chart gives the same file


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Raise an error for a format that cannot be written."""
    for name in formats:
        if name not in FIGURE_FORMATS:
            raise unknown_name("image format", name, FIGURE_FORMATS)
    return tuple(formats)


def save_result_set(results: ResultSet, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write a result set as JSON, its tables in every format, and its charts if matplotlib is installed.

    Args:
        results: What to write.
        folder: Folder for the files; it is made if it does not exist.
        formats: Formats of the charts: png, pdf, svg.

    Returns:
        The files.

    Raises:
        UnknownNameError: A format is not one of png, pdf, svg.
        StorageError: The disk refused to write.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.reporting import ResultSet, Table
        >>> table = Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.35)])
        >>> with TemporaryDirectory() as folder:
        ...     files = save_result_set(ResultSet("mine", "My experiment", [table]), folder)
        >>> [file.name for file in files]
        ['mine.results.json', 'accuracy.md', 'accuracy.csv', 'accuracy.tex']
    """
    check_formats(formats)
    path = Path(folder)
    files = [write_result_set(results, path)]
    for table in results.tables:
        for suffix, render in TABLE_FORMATS.items():
            files.append(path / f"{table.name}.{suffix}")
            files[-1].write_text(render(table), encoding="utf-8")
    if find_spec("matplotlib") is not None:
        for chart in results.charts:
            files += save_chart(chart, path, formats)
    return files


def save_chart(chart: Chart, folder: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write one chart as <folder>/<name>.<format>; return the files."""
    require("matplotlib")
    import matplotlib as mpl

    from cosmic_tta.reporting.plotting.matplotlib_backend import STYLE, draw_chart

    files = [Path(folder) / f"{chart.name}.{name}" for name in check_formats(formats)]
    with mpl.rc_context(cast(Any, dict(STYLE))):
        figure = draw_chart(chart)
        for file, name in zip(files, formats, strict=True):
            figure.savefig(file, format=name, bbox_inches="tight", pad_inches=0.15, metadata=NO_DATE.get(name))
    return files
