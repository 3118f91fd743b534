"""`cosmic eval`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta import Support, make_method, parameters
from cosmic_tta.commands.learning import trained_for, with_towers
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.comparison import by_stream, details, differences, losses, results
from cosmic_tta.domains import join as join_packs
from cosmic_tta.errors import InputError, ParameterError, no_twin, unknown_name
from cosmic_tta.evaluate import Run, score
from cosmic_tta.guards import Guard
from cosmic_tta.jobs import fits
from cosmic_tta.methods import split_name
from cosmic_tta.metrics import Hits
from cosmic_tta.packs import AUX_KINDS, FeaturePack
from cosmic_tta.report import Report, as_rows
from cosmic_tta.runs import Recorder, RunFolder
from cosmic_tta.streams import STREAMS, check_stream, find_kind
from cosmic_tta.terminal import STDOUT, progress_bar, say, show_table, writable, write_json

DEFAULT = "bayes_means,cosmic"  # what we recommend, beside COSMIC
Packs = Annotated[list[Path], typer.Argument(metavar="PACK...", help="Folders of features.")]


def evaluate_packs(
    packs: Packs,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="NAME[@PRESET][,...]", help="Methods to run; see `cosmic methods`."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of every named method that has it."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="What `cosmic train` wrote, for a method that was trained; may be repeated."),
    ] = None,
    tower: Annotated[
        str | None,
        typer.Option(metavar="FAMILY:MODEL", help="The text tower of methods that learn; the pack's own unless told."),
    ] = None,
    support: Annotated[
        Path | None, typer.Option(metavar="PACK", help="Labelled training features for the few-shot methods.")
    ] = None,
    order: Annotated[
        str,
        typer.Option(metavar="KIND[:NUMBER][,...]", help=f"How the images arrive: {', '.join(STREAMS)}."),
    ] = "shuffle",
    join: Annotated[bool, typer.Option("--join", help="Join the packs into one: domains of the same task.")] = False,
    aux: Annotated[str, typer.Option(help=f"Auxiliary features: {', '.join(AUX_KINDS)}.")] = "given",
    seed: Annotated[int | None, typer.Option(help="Of the order; 0 unless told.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="S,S,...", help="Several seeds, one run each.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Stop after so many images.")] = None,
    guard: Annotated[
        bool, typer.Option("--guard", help="The same picture teaches once, as in the service; see docs/reliability.md.")
    ] = False,
    every: Annotated[bool, typer.Option("--details", help="Show every metric.")] = False,
    json_file: JsonFile = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Write order, scores and every branch; of several runs, one file each."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write all that `cosmic report` shows of these runs.")
    ] = None,
) -> None:
    """Replay feature packs through methods and compare them with zero-shot CLIP."""
    # All that can be wrong with the words is said before any work.
    specs = [spec.strip() for names in method or [DEFAULT] for spec in names.split(",") if spec.strip()]
    if not specs:
        raise InputError("--method names no method; see `cosmic methods`.")
    no_twin("--method", [kind.name + "@" + preset for kind, preset in map(split_name, specs)])
    settings = _settings(specs, set_ or [])
    opened = [FeaturePack.open(folder) for folder in packs]
    no_twin("packs of the name", [pack.name for pack in opened])
    if join:
        opened = [join_packs(opened)]
    orders = _orders(order)
    shots = _support(support, specs, packs, orders)
    learned = trained_for(checkpoint or [], specs, opened)
    opened = with_towers(opened, specs, tower)
    numbers = _seeds(seed, seeds, orders)
    opened[0].with_aux(aux)
    for pack, name, number in product(opened, orders, numbers):
        check_stream(name, pack, number, limit)
    made = {}
    for spec in specs:
        extra: dict[str, Any] = {"support": shots} if "support" in split_name(spec)[0].needs else {}
        extra |= {"checkpoint": learned[spec]} if spec in learned else {}
        made[spec] = make_method(spec, **settings[spec], **extra)
        for pack, name in product(opened, orders):
            fits(made[spec], pack, name, numbers[0])
    writable(json_file)
    writable(samples)
    folder = None if save is None else RunFolder.begin(save)

    runs = [
        (pack, name, spec, number)
        for pack, name, spec in product(opened, orders, specs)
        for number in (numbers if find_kind(name)[0].seeded else numbers[:1])
    ]
    reports: list[Report] = []
    outcomes: list[tuple[Report, Hits]] = []
    try:
        for pack, name, spec, number in runs:
            with progress_bar(f"{spec} on {pack.name}, {name}, seed {number}") as watch:
                preset, seen = split_name(spec)[1], Recorder(watch)
                run = score(
                    made[spec],
                    pack,
                    preset=f"{preset}+guard" if guard else preset,
                    order=name,
                    aux=aux,
                    seed=number,
                    limit=limit,
                    watch=watch if folder is None else seen,
                    guard=Guard() if guard else None,
                )
            reports.append(run.report)
            if run.hits is not None:
                outcomes.append((run.report, run.hits))
            if folder is not None:
                folder.add(run, seen)
            if samples:
                _save_samples(run, samples, several=len(runs) > 1, orders=len(orders) > 1)
    finally:  # what was done is shown and kept, whatever stopped the rest
        if folder is not None:
            folder.finish()
        if reports:
            show_reports(reports, json_file, outcomes, every=every)


def _orders(text: str) -> list[str]:
    """Read the names of streams with commas between; each is checked."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise InputError(f"--order names no stream; known: {', '.join(STREAMS)}.")
    for name in names:
        find_kind(name)
    no_twin("--order", names)
    return names


def _support(folder: Path | None, specs: Sequence[str], packs: Sequence[Path], orders: Sequence[str]) -> Support | None:
    takers = [spec for spec in specs if "support" in split_name(spec)[0].needs]
    if folder is None:
        return None
    if not takers:
        raise InputError(f"--support is for few-shot methods; {', '.join(specs)} would not use it.")
    if folder.resolve() in {pack.resolve() for pack in packs}:
        raise InputError("--support must not be a pack that is evaluated: its labels would be given away.")
    narrowed = [name for name in orders if find_kind(name)[0].narrows]
    if narrowed:
        raise InputError(f"{', '.join(takers)}: --support has all classes, and --order {narrowed[0]} takes some out.")
    return FeaturePack.open(folder).support()


def _settings(specs: Sequence[str], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give each key=value to the methods that have such a parameter; one that none has is an error."""
    kinds = {spec: split_name(spec)[0] for spec in specs}
    settings: dict[str, dict[str, Any]] = {spec: {} for spec in specs}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set takes key=value; given {text!r}.")
        takers = [spec for spec, kind in kinds.items() if key in parameters.describe(kind)]
        if not takers:
            known = {name for kind in kinds.values() for name in parameters.describe(kind)}
            error = unknown_name(f"parameter of {', '.join(specs)}", key, known)
            raise ParameterError(f"{error} What they do: cosmic methods --json.")
        if any(key in settings[spec] for spec in takers):
            raise InputError(f"--set sets {key} twice.")
        for spec in takers:
            settings[spec][key] = parameters.parse(kinds[spec], key, value)
    return settings


def _seeds(seed: int | None, several: str | None, orders: Sequence[str]) -> list[int]:
    if several is None:
        return [seed or 0]
    if seed is not None:
        raise InputError("give --seed or --seeds, not both.")
    if not any(find_kind(name)[0].seeded for name in orders):
        raise InputError("--seeds has no meaning with --order given: the order is the same for every seed.")
    try:
        numbers = [int(part) for part in several.split(",")]
    except ValueError as error:
        raise InputError(f"--seeds takes whole numbers with commas between; given {several!r}.") from error
    no_twin("--seeds", list(map(str, numbers)))
    return numbers


def _save_samples(run: Run, file: Path, *, several: bool, orders: bool) -> None:
    report = run.report
    if several:
        order = f".{report.order}" if orders else ""
        name = re.sub(r"[^\w@.-]", "_", f"{report.pack}{order}.{report.method}@{report.preset}.s{report.seed}")
        file = file.with_name(f"{file.stem}.{name}.npz")
    try:
        run.save_samples(str(file))
    except OSError as error:
        raise InputError(f"cannot write {str(file)!r}: {error.strerror}.") from error


def show_reports(
    reports: Sequence[Report],
    json_file: str | None,
    outcomes: Sequence[tuple[Report, Hits]] = (),
    *,
    every: bool = False,
) -> None:
    """Print tables for people, or JSON for machines."""
    if json_file != STDOUT:
        for group in by_stream(reports):
            _show_stream(group, [(report, hits) for report, hits in outcomes if report in group], every)
        for table in losses(reports):
            show_table(table)
    write_json(as_rows(reports), json_file)


def _show_stream(group: Sequence[Report], outcomes: Sequence[tuple[Report, Hits]], every: bool) -> None:
    """Print the tables of one stream, and what must be known of it."""
    (whole,) = results(group)
    show_table(whole)
    for table in (*details(group, every=every), *differences(outcomes)):
        show_table(replace(table, title=table.title.removeprefix(f"{whole.title}: ")))
    for note in dict.fromkeys(report.note for report in group if report.note):
        say(f"{group[0].order}: {note}.\n")
