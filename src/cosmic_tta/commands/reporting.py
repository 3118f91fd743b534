"""`cosmic report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.charts import Outcome
from cosmic_tta.errors import InputError
from cosmic_tta.runs import SavedRun, is_run_folder, read_runs
from cosmic_tta.terminal import say, writable


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders that cosmic eval --save or cosmic paper --out wrote."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where the page is written.")] = Path(
        "cosmic-report.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write every figure and table here too, for papers.")
    ] = None,
    formats: Annotated[str, typer.Option(metavar="F,F,...", help="Of the figures: png, pdf, svg.")] = "png",
    title: Annotated[str, typer.Option(help="Of the page.")] = "Test-time adaptation, a report",
) -> None:
    """Put runs and experiments on one self-contained page: charts, tables, graphs, galleries."""
    from cosmic_tta.drawing.needs import require
    from cosmic_tta.figures import check_formats, save_outcome

    require("plotly", "matplotlib", "sklearn")
    wanted = check_formats([name.strip() for name in formats.split(",") if name.strip()])
    writable(out)
    outcomes = gathered(runs)
    write_report(outcomes, out, title)
    say(f"Report: {out}")
    if figures is not None:
        files = [file for outcome in outcomes for file in save_outcome(outcome, figures, wanted)]
        say(f"Figures and tables: {len(files)} files in {figures}")


def gathered(folders: Sequence[Path]) -> list[Outcome]:
    """Read folders of runs and of outcomes; all runs are shown together, outcomes follow in order."""
    from cosmic_tta.outcomes import outcome_files, read_outcome
    from cosmic_tta.portraits import portraits

    saved: list[SavedRun] = []
    outcomes: list[Outcome] = []
    for folder in folders:
        found = outcome_files(folder)
        outcomes += [read_outcome(file) for file in found]
        if not found or is_run_folder(folder):
            saved += read_runs(folder)
    return (portraits(saved) if saved else []) + outcomes


def write_report(outcomes: Sequence[Outcome], file: Path, title: str, lead: str = "") -> None:
    """Write the page, or say why it cannot be written."""
    from cosmic_tta.drawing.page import write_page

    try:
        write_page(outcomes, file, title, lead)
    except OSError as error:
        raise InputError(f"cannot write {str(file)!r}: {error.strerror}.") from error
