"""`cosmic paper`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from cosmic_tta import checkpoints
from cosmic_tta.charts import Outcome
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.drawing.needs import INSTALL, can_draw
from cosmic_tta.errors import CosmicError, InputError
from cosmic_tta.experiments import EXPERIMENTS, Context, find_experiment
from cosmic_tta.experiments.context import SEEDS, Watch
from cosmic_tta.figures import save_outcome
from cosmic_tta.methods import LESSONS, split_name
from cosmic_tta.outcomes import as_plain
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import Learned
from cosmic_tta.terminal import STDOUT, complain, counter, print_table, say, show_table, writable, write_json

ALL = "all"


def paper(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="An experiment, or `all`. Without, they are listed."),
    ] = None,
    packs: Annotated[
        list[Path] | None, typer.Argument(metavar="PACK...", help="Packs; the embedded photographs unless told.")
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Add what label-searched weights would reach, in columns that say so.")
    ] = False,
    support: Annotated[
        Path | None, typer.Option(metavar="PACK", help="Labelled training features for Tip-Adapter; never a stream's.")
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="What `cosmic train` wrote, for CoOp, CoCoOp, Tip-Adapter-F; may be repeated."
        ),
    ] = None,
    tower: Annotated[
        str | None,
        typer.Option(metavar="FAMILY:MODEL", help="The text tower of TPT and others; the pack's own unless told."),
    ] = None,
    without: Annotated[
        str, typer.Option(metavar="NAME,...", help="Leave methods out; on a CPU, tpt takes seconds an image.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables (CSV, LaTeX, markdown) and pictures there.")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="S,S,...", help="Of the orders.")] = ",".join(map(str, SEEDS)),
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only the first so many images of a stream.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment of the COSMIC paper by name, the published figures beside ours."""
    if name is None:
        rows = [(key, found.paper, found.summary) for key, found in EXPERIMENTS.items()]
        if json_file != STDOUT:
            print_table(("experiment", "in the paper", "what it shows"), rows)
            say("cosmic paper NAME [PACK...] runs one; cosmic paper all runs them all.")
        keys = ("name", "paper", "summary")
        write_json([dict(zip(keys, row, strict=True)) for row in rows], json_file)
        return
    names = list(EXPERIMENTS) if name == ALL else [name]
    for one in names:
        find_experiment(one)
    context = replace(
        _context(packs or [], _seeds(seeds), limit, oracle),
        support=_support(support, packs or []),
        learned=_learned(checkpoint or []),
        tower=tower,
        without=_names(without),
    )
    writable(json_file)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    failed: list[str] = []
    for one in names:
        try:
            outcomes.append(_run(one, context))
        except CosmicError as error:
            if name != ALL:
                raise
            complain(f"{one}: {error}")
            failed.append(one)
            continue
        if json_file != STDOUT:
            show(outcomes[-1])
        if out is not None:
            written = save_outcome(outcomes[-1], out)
            if json_file != STDOUT:
                say(f"{len(written)} files in {out}.")
    if out is not None and json_file != STDOUT:
        say(f"All of it on one page: cosmic report {out}" if can_draw() else f"Charts were not drawn: {INSTALL}.")
    write_json([as_plain(outcome) for outcome in outcomes], json_file)
    if failed:
        complain(f"could not be run: {', '.join(failed)}.")
        raise typer.Exit(1)


def _run(name: str, context: Context) -> Outcome:
    start = perf_counter()
    with counter(f"paper {name}", "images") as count:
        outcome = find_experiment(name).load()(replace(context, watch=_added_up(count)))
    return replace(outcome, settings={**outcome.settings, "seconds": round(perf_counter() - start, 1)})


def _added_up(count: Watch) -> Watch:
    """Count the images of one run after the other; how many runs there will be is not known."""
    before = last = 0

    def watch(done: int, total: int, remark: str) -> None:
        nonlocal before, last
        before += last if done <= last else 0
        last = done
        count(before + done, before + total, remark)

    return watch


def _context(folders: Sequence[Path], seeds: tuple[int, ...], limit: int | None, oracle: bool) -> Context:
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1; given {limit}.")
    opened = tuple(FeaturePack.open(folder) for folder in folders)
    names = [pack.name for pack in opened]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise InputError(f"packs of the name: given twice: {', '.join(twins)}. They could not be told apart.")
    return Context(opened, seeds, limit, oracle)


def _support(folder: Path | None, packs: Sequence[Path]) -> FeaturePack | None:
    if folder is None:
        return None
    if folder.resolve() in {pack.resolve() for pack in packs}:
        raise InputError("--support must not be a pack that is evaluated: its labels would be given away.")
    found = FeaturePack.open(folder)
    found.support()  # says so if it has no labels
    return found


def _learned(files: Sequence[Path]) -> dict[str, Learned]:
    return {name: checkpoints.read(file) for name, file in checkpoints.taken_by(files, list(LESSONS)).items()}


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return tuple(split_name(name)[0].name for name in names)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--seeds takes whole numbers with commas between; given {text!r}.") from error
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise InputError(f"--seeds takes different numbers, 0 or more; given {text!r}.")
    return numbers


def show(outcome: Outcome) -> None:
    """Print tables, what is to be known about them, and what could not be run."""
    say(f"\n{outcome.title}")
    for table in outcome.tables:
        show_table(table)
    for note in outcome.notes:
        say(f"· {note}")
    for sentence in outcome.missing:
        say(f"missing: {sentence}")
