"""`cosmic report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.terminal import refuse_unwritable, say
from cosmic_tta.evaluation.run_folder import SavedRun, is_run_folder, read_runs
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.tables import counted


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders written by cosmic eval --save or cosmic paper --out."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")] = Path("cosmic-report.html"),
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write every figure and table there, for papers.")
    ] = None,
    formats: Annotated[str, typer.Option(metavar="F,F,...", help="Formats of the figures: png, pdf, svg.")] = "png",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Test-time adaptation, a report",
) -> None:
    """Write runs and experiments to one self-contained HTML page with charts, tables and images."""
    from cosmic_tta.reporting.figure_files import check_formats, save_result_set
    from cosmic_tta.reporting.plotting.requirements import require

    require("plotly", "matplotlib", "sklearn")
    wanted = check_formats([name.strip() for name in formats.split(",") if name.strip()])
    refuse_unwritable(out)
    results = read_results(runs)
    write_report(results, out, title)
    say(f"Report: {out}")
    if figures is not None:
        files = [file for result in results for file in save_result_set(result, figures, wanted)]
        say(f"Figures and tables: {counted(len(files), 'file')} in {figures}")


def read_results(folders: Sequence[Path]) -> list[ResultSet]:
    """Read folders of runs and of experiments. All runs are reported together; the experiments follow in order."""
    from cosmic_tta.reporting.result_files import read_result_set, result_files
    from cosmic_tta.reporting.run_report import report_sections

    saved: list[SavedRun] = []
    experiments: list[ResultSet] = []
    for folder in folders:
        found = result_files(folder)
        experiments += [read_result_set(file) for file in found]
        if not found or is_run_folder(folder):
            saved += read_runs(folder)
    return (report_sections(saved) if saved else []) + experiments


def write_report(sections: Sequence[ResultSet], file: Path, title: str, lead: str = "") -> None:
    """Write the page."""
    from cosmic_tta.reporting.plotting import write_page

    write_page(sections, file, title, lead)
