"""`cosmic paper`: the experiments of the COSMIC paper by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from cosmic_tta.cli.options import Checkpoints, JsonFile, Limit, Support, Tower, parse_seeds
from cosmic_tta.cli.terminal import (
    STDOUT,
    complain,
    counter,
    print_table,
    refuse_unwritable,
    say,
    show_table,
    write_json,
)
from cosmic_tta.core.errors import CosmicError, InputError, refuse_duplicates
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import refuse_same_names
from cosmic_tta.methods import OBJECTIVES, split_name
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.figure_files import save_result_set
from cosmic_tta.reporting.paper import EXPERIMENTS, ExperimentContext, find_experiment
from cosmic_tta.reporting.paper.context import SEEDS, ProgressCallback
from cosmic_tta.reporting.plotting.requirements import INSTALL, can_draw
from cosmic_tta.reporting.result_files import as_json
from cosmic_tta.reporting.tables import counted
from cosmic_tta.training import checkpoint_file

ALL = "all"
DEFAULT_SEEDS = ",".join(map(str, SEEDS))

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="An experiment, or `all`. Without a name, they are listed.")
]
Packs = Annotated[
    list[Path] | None, typer.Argument(metavar="PACK...", help="Feature packs. Default: the embedded photographs.")
]
Oracle = Annotated[
    bool, typer.Option("--oracle", help="Add what weights searched on labels reach, in columns named oracle.")
]
Without = Annotated[
    str, typer.Option(metavar="NAME,...", help="Leave methods out; on a CPU, tpt takes seconds per image.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write tables (CSV, LaTeX, markdown) and figures there.")
]
Seeds = Annotated[str, typer.Option(metavar="S,S,...", help="Seeds of the orders.")]


def paper(
    name: Name = None,
    packs: Packs = None,
    oracle: Oracle = False,
    support: Support = None,
    checkpoint: Checkpoints = None,
    tower: Tower = None,
    without: Without = "",
    out: Out = None,
    seeds: Seeds = DEFAULT_SEEDS,
    limit: Limit = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment of the COSMIC paper by name, with the published figures beside ours."""
    if name is None:
        _list_experiments(json_file)
        return
    names = list(EXPERIMENTS) if name == ALL else [name]
    for one in names:
        find_experiment(one)
    context = ExperimentContext(
        _open_packs(packs or []),
        parse_seeds(seeds),
        _checked_limit(limit),
        oracle,
        support=_open_support(support, packs or []),
        checkpoints=_read_checkpoints(checkpoint or []),
        tower=tower,
        excluded=tuple(split_name(spec)[0].name for spec in map(str.strip, without.split(",")) if spec),
    )
    refuse_unwritable(json_file)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    results, failed = _run_all(names, context, out, quiet=json_file == STDOUT, go_on=name == ALL)
    write_json([as_json(result) for result in results], json_file)
    if failed:
        complain(f"could not be run: {', '.join(failed)}.")
        raise typer.Exit(1)


def _list_experiments(json_file: str | None) -> None:
    rows = [(key, found.reference, found.summary) for key, found in EXPERIMENTS.items()]
    if json_file != STDOUT:
        print_table(("experiment", "in the paper", "what it shows"), rows)
        say("cosmic paper NAME [PACK...] runs one; cosmic paper all runs them all.")
    keys = ("name", "paper", "summary")
    write_json([dict(zip(keys, row, strict=True)) for row in rows], json_file)


def _run_all(
    names: Sequence[str], context: ExperimentContext, out: Path | None, *, quiet: bool, go_on: bool
) -> tuple[list[ResultSet], list[str]]:
    """Run experiments, show and write each; return the results and the names of those that failed."""
    results: list[ResultSet] = []
    failed: list[str] = []
    for name in names:
        try:
            result = _run(name, context)
        except CosmicError as error:
            if not go_on:
                raise
            complain(f"{name}: {error}")
            failed.append(name)
            continue
        results.append(result)
        if not quiet:
            show(result)
        if out is not None:
            written = save_result_set(result, out)
            if not quiet:
                say(f"{counted(len(written), 'file')} in {out}.")
    if out is not None and not quiet:
        say(f"All of it on one page: cosmic report {out}" if can_draw() else f"Charts were not drawn: {INSTALL}.")
    return results, failed


def _run(name: str, context: ExperimentContext) -> ResultSet:
    start = perf_counter()
    with counter(f"paper {name}", "images") as count:
        result = find_experiment(name).load()(replace(context, on_progress=_cumulative(count)))
    return replace(result, settings={**result.settings, "seconds": round(perf_counter() - start, 1)})


def _cumulative(count: ProgressCallback) -> ProgressCallback:
    """Count the images of one run after another; the number of runs is not known beforehand."""
    before = last = 0

    def watch(done: int, total: int, remark: str) -> None:
        nonlocal before, last
        before += last if done <= last else 0
        last = done
        count(before + done, before + total, remark)

    return watch


def _open_packs(folders: Sequence[Path]) -> tuple[FeaturePack, ...]:
    refuse_duplicates("packs", list(map(str, folders)))
    packs = {str(folder): FeaturePack.open(folder) for folder in folders}
    refuse_same_names(packs)
    return tuple(packs.values())


def _checked_limit(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1; given {limit}.")
    return limit


def _open_support(folder: Path | None, packs: Sequence[Path]) -> FeaturePack | None:
    if folder is None:
        return None
    if folder.resolve() in {pack.resolve() for pack in packs}:
        raise InputError("--support must not be a pack that is evaluated: it would reveal the pack's labels.")
    pack = FeaturePack.open(folder)
    pack.support()  # refuses a pack without labels
    return pack


def _read_checkpoints(files: Sequence[Path]) -> dict[str, Checkpoint]:
    matched = checkpoint_file.match_methods(files, list(OBJECTIVES))
    return {name: checkpoint_file.read(file) for name, file in matched.items()}


def show(result: ResultSet) -> None:
    """Print the tables of a result, its notes, and what could not be run."""
    say(f"\n{result.title}")
    for table in result.tables:
        show_table(table)
    for note in result.notes:
        say(f"· {note}")
    for sentence in result.missing:
        say(f"missing: {sentence}")
