"""`cosmic sweep`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.options import Address, Engine, JsonFile, uses_ray
from cosmic_tta.cli.report_output import show_reports
from cosmic_tta.cli.terminal import STDOUT, complain, counter, refuse_unwritable, say
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.sweep import SweepResult, sweep
from cosmic_tta.reporting.tables import counted

MAX_SHOWN = 20  # failures named on the terminal


def sweep_grid(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="What to combine; see the guide on sweeps.")],
    out: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Folder of the results. Default: runs-GRID beside the grid.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes. Default: one per core. 0: run in this process.")
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="Also keep the scores per image, as RUNS/*.npz.")] = False,
    engine: Engine = "local",
    address: Address = None,
    json_file: JsonFile = None,
) -> None:
    """Run methods × parameters × packs × orders × seeds. If it was stopped, run it again: finished runs are skipped."""
    ray = uses_ray(engine, address)
    read = read_grid(grid)
    if workers is not None and workers < 0:
        raise InputError(f"--workers must be 0 or more; given {workers}.")
    refuse_unwritable(json_file)
    jobs = read.jobs()
    folder = out or grid.with_name(f"runs-{grid.stem}")
    refuse_file(folder)
    with finished_runs_kept(folder), counter(f"sweep {grid.name}", "runs") as count:
        if ray:
            from cosmic_tta.distributed.sweep import sweep_on_ray

            done = sweep_on_ray(jobs, folder, address=address, workers=workers, samples=samples, watch=count)
        else:
            done = sweep(jobs, folder, workers=workers, samples=samples, watch=count)
    show_reports(done.reports, json_file)
    if json_file != STDOUT:
        made = len(done.reports) - done.skipped
        runs = f"{len(done.reports)} of {counted(len(jobs), 'run')} in {folder}"
        say(f"{runs}: {made} run now, {done.skipped} were there before.")
    exit_with_failures(done, len(jobs))


def refuse_file(folder: Path) -> None:
    """Refuse a file where the folder of the results should be; make the folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder; {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def finished_runs_kept(folder: Path) -> Iterator[None]:
    """Let an interrupt end the workers and the command; say that the finished runs are kept."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like an interrupt: nothing is lost, workers end
    try:
        yield
    except KeyboardInterrupt:
        complain(f"stopped. Finished runs are in {str(folder)!r}; run the same command to continue.")
        raise typer.Exit(130) from None


def exit_with_failures(done: SweepResult, jobs: int) -> None:
    """Name the jobs that failed and end with exit code 1; return if there are none."""
    if done.failures:
        complain(f"{len(done.failures)} of {jobs} runs failed; run the same command again to retry them:")
        for job, reason in done.failures[:MAX_SHOWN]:
            complain(f"  {job}: {reason}")
        raise typer.Exit(1)
