"""`cosmic eval` and `cosmic demo`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta import Support, make_method, parameters
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.errors import InputError, ParameterError, unknown_name
from cosmic_tta.evaluate import Run, score
from cosmic_tta.methods import split_name
from cosmic_tta.packs import AUX_KINDS, FeaturePack
from cosmic_tta.report import COLUMNS, Report, as_rows, sections
from cosmic_tta.streams import ORDERS, stream_order
from cosmic_tta.synthetic import superclass_pack
from cosmic_tta.terminal import STDOUT, print_table, progress_bar, say, writable, write_json

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
    support: Annotated[
        Path | None, typer.Option(metavar="PACK", help="Labelled training features for the few-shot methods.")
    ] = None,
    order: Annotated[str, typer.Option(help=f"How the images arrive: {', '.join(ORDERS)}.")] = "shuffle",
    aux: Annotated[str, typer.Option(help=f"Auxiliary features: {', '.join(AUX_KINDS)}.")] = "given",
    seed: Annotated[int | None, typer.Option(help="Of the order; 0 unless told.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="S,S,...", help="Several seeds, one run each.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Stop after so many images.")] = None,
    json_file: JsonFile = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Write order, scores and every branch; of several runs, one file each."),
    ] = None,
) -> None:
    """Replay feature packs through methods and compare them with zero-shot CLIP."""
    # All that can be wrong with the words is said before any work.
    specs = [spec.strip() for names in method or [DEFAULT] for spec in names.split(",") if spec.strip()]
    if not specs:
        raise InputError("--method names no method; see `cosmic methods`.")
    _no_twin("--method", [kind.name + "@" + preset for kind, preset in map(split_name, specs)])
    settings = _settings(specs, set_ or [])
    opened = [FeaturePack.open(folder) for folder in packs]
    _no_twin("packs of the name", [pack.name for pack in opened])
    shots = _support(support, specs, packs)
    made = {}
    for spec in specs:
        extra = {"support": shots} if "support" in split_name(spec)[0].needs else {}
        made[spec] = make_method(spec, **settings[spec], **extra)
        for pack in opened:
            made[spec].init(pack.task())
    numbers = _seeds(seed, seeds, order)
    opened[0].with_aux(aux)
    for pack in opened:
        for number in numbers:
            stream_order(order, len(pack), number, pack.labels, limit)
    writable(json_file)
    writable(samples)

    runs = [(pack, spec, number) for pack in opened for spec in specs for number in numbers]
    reports: list[Report] = []
    try:
        for pack, spec, number in runs:
            with progress_bar(f"{spec} on {pack.name}, seed {number}") as watch:
                preset = split_name(spec)[1]
                run = score(
                    made[spec], pack, preset=preset, order=order, aux=aux, seed=number, limit=limit, watch=watch
                )
            reports.append(run.report)
            if samples:
                _save_samples(run, samples, several=len(runs) > 1)
    finally:  # what was done is shown, whatever stopped the rest
        if reports:
            show_reports(reports, json_file)


def _no_twin(what: str, names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise InputError(f"{what}: given twice: {', '.join(twins)}. Runs of the same name could not be told apart.")


def _support(folder: Path | None, specs: Sequence[str], packs: Sequence[Path]) -> Support | None:
    takers = [spec for spec in specs if "support" in split_name(spec)[0].needs]
    if folder is None:
        return None
    if not takers:
        raise InputError(f"--support is for few-shot methods; {', '.join(specs)} would not use it.")
    if folder.resolve() in {pack.resolve() for pack in packs}:
        raise InputError("--support must not be a pack that is evaluated: its labels would be given away.")
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


def _seeds(seed: int | None, several: str | None, order: str) -> list[int]:
    if several is None:
        return [seed or 0]
    if seed is not None:
        raise InputError("give --seed or --seeds, not both.")
    if order == "given":
        raise InputError("--seeds has no meaning with --order given: the order is the same for every seed.")
    try:
        numbers = [int(part) for part in several.split(",")]
    except ValueError as error:
        raise InputError(f"--seeds takes whole numbers with commas between; given {several!r}.") from error
    _no_twin("--seeds", list(map(str, numbers)))
    return numbers


def _save_samples(run: Run, file: Path, *, several: bool) -> None:
    report = run.report
    if several:
        name = re.sub(r"[^\w@.-]", "_", f"{report.pack}.{report.method}@{report.preset}.s{report.seed}")
        file = file.with_name(f"{file.stem}.{name}.npz")
    try:
        run.save_samples(str(file))
    except OSError as error:
        raise InputError(f"cannot write {str(file)!r}: {error.strerror}.") from error


def show_reports(reports: Sequence[Report], json_file: str | None) -> None:
    """Print tables for people, or JSON for machines."""
    if json_file != STDOUT:
        for title, rows in sections(reports).items():
            print_table(COLUMNS, rows, title)
    write_json(as_rows(reports), json_file)


def demo(
    images: Annotated[int, typer.Option(help="How many images the stream has.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the generated features and of their order.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Adapt to a generated stream of features, with nothing to download."""
    pack = superclass_pack(seed, images=images)
    if json_file != STDOUT:
        say(
            f"A generated stream: {len(pack)} images of {len(pack.class_names)} classes, look-alikes in groups, "
            "seen through a shift that the texts know nothing of. No method sees a label."
        )
    reports = []
    for spec in ("zero_shot", "tda", "dmn", "cosmic@official", "cosmic@paper", "cosmic", "bayes_means"):
        with progress_bar(spec) as watch:
            run = score(make_method(spec), pack, preset=split_name(spec)[1], seed=seed, watch=watch)
        reports.append(run.report)
    show_reports(reports, json_file)
    if json_file != STDOUT:
        say("Next, your own pictures (README): cosmic extract FOLDER --clip ... --out PACK, then cosmic eval PACK")
