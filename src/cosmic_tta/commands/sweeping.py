"""`cosmic sweep`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.commands.evaluation import show_reports
from cosmic_tta.commands.options import Address, Engine, JsonFile, on_ray
from cosmic_tta.errors import InputError
from cosmic_tta.grid import read_grid
from cosmic_tta.sweep import sweep
from cosmic_tta.terminal import STDOUT, complain, counter, say, writable

SHOWN = 20  # failures named on the terminal


def sweep_grid(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="What to cross; docs/sweeps.md shows one.")],
    out: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Where results are kept; runs-GRID beside the grid unless told.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; all cores unless told; 0: none, run here.")
    ] = None,
    samples: Annotated[bool, typer.Option("--samples", help="Keep every run's answers too, as RUNS/*.npz.")] = False,
    engine: Engine = "local",
    address: Address = None,
    json_file: JsonFile = None,
) -> None:
    """Run methods × parameters × packs × orders × seeds. Run it again if it was stopped: what is done is skipped."""
    remote = on_ray(engine, address)
    read = read_grid(grid)
    if workers is not None and workers < 0:
        raise InputError(f"--workers must be 0 or more; given {workers}.")
    writable(json_file)
    jobs = read.jobs()
    folder = out or grid.with_name(f"runs-{grid.stem}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder; {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt: nothing is lost, workers end
    try:
        with counter(f"sweep {grid.name}", "runs") as count:
            if remote:
                from cosmic_tta.scale.sweeping import sweep_on_ray

                done = sweep_on_ray(jobs, folder, address=address, workers=workers, samples=samples, watch=count)
            else:
                done = sweep(jobs, folder, workers=workers, samples=samples, watch=count)
    except KeyboardInterrupt:
        complain(f"stopped. What is done is in {str(folder)!r}; the same command goes on from there.")
        raise typer.Exit(130) from None
    show_reports(done.reports, json_file)
    if json_file != STDOUT:
        made = len(done.reports) - done.skipped
        say(f"{len(done.reports)} of {len(jobs)} runs in {folder}: {made} made now, {done.skipped} were done before.")
    if done.failures:
        complain(f"{len(done.failures)} of {len(jobs)} runs failed; run the same command again to retry them:")
        for job, reason in done.failures[:SHOWN]:
            complain(f"  {job}: {reason}")
        raise typer.Exit(1)
