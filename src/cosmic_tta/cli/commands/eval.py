"""`cosmic eval`: options → evaluation plan → runs → tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta.cli.options import Checkpoints, JsonFile, Limit, Support, Tower, parse_names, parse_seeds
from cosmic_tta.cli.report_output import Outcome, show_reports
from cosmic_tta.cli.terminal import progress_bar, refuse_unwritable
from cosmic_tta.core import parameters
from cosmic_tta.core.errors import InputError, ParameterError, unknown_name
from cosmic_tta.evaluation.evaluator import EvaluationRun
from cosmic_tta.evaluation.jobs import run_job
from cosmic_tta.evaluation.plan import EvaluationPlan
from cosmic_tta.evaluation.report import Report
from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder
from cosmic_tta.evaluation.streams.registry import STREAMS, find_kind
from cosmic_tta.features.pack import AUX_KINDS
from cosmic_tta.methods import split_name

DEFAULT_METHODS = "bayes_means,cosmic"

Packs = Annotated[list[Path], typer.Argument(metavar="PACK...", help="Folders of feature packs.")]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="NAME[@PRESET][,...]", help="Methods to run; see `cosmic methods`."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of every named method that has it. Repeatable."),
]
Orders = Annotated[str, typer.Option(metavar="KIND[:NUMBER][,...]", help=f"Order of the images: {', '.join(STREAMS)}.")]
Join = Annotated[bool, typer.Option("--join", help="Join the packs into one: domains of the same task.")]
Aux = Annotated[str, typer.Option(help=f"Auxiliary features: {', '.join(AUX_KINDS)}.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the order. Default: 0.")]
Seeds = Annotated[str | None, typer.Option(metavar="S,S,...", help="Several seeds, one run each.")]
Guard = Annotated[
    bool, typer.Option("--guard", help="Learn from an image only once, as the service does; see the guide.")
]
EveryMetric = Annotated[bool, typer.Option("--details", help="Show every metric.")]
Samples = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz", help="Write order, scores and branches per image; one file per run."),
]
Save = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write what `cosmic report` needs of these runs.")]


@dataclass(frozen=True)
class EvalOutput:
    """Where the results of the runs go."""

    json_file: str | None
    samples: Path | None
    folder: Path | None
    every_metric: bool

    def check(self) -> None:
        """Refuse files that cannot be written, before any run."""
        refuse_unwritable(self.json_file)
        refuse_unwritable(self.samples)


def evaluate_packs(
    packs: Packs,
    method: Methods = None,
    set_: Settings = None,
    checkpoint: Checkpoints = None,
    tower: Tower = None,
    support: Support = None,
    order: Orders = "shuffle",
    join: Join = False,
    aux: Aux = "given",
    seed: Seed = None,
    seeds: Seeds = None,
    limit: Limit = None,
    guard: Guard = False,
    every_metric: EveryMetric = False,
    json_file: JsonFile = None,
    samples: Samples = None,
    save: Save = None,
) -> None:
    """Evaluate methods on feature packs and compare them with zero-shot CLIP."""
    methods = parse_names("--method", ",".join(method or [DEFAULT_METHODS]))
    orders = parse_names("--order", order)
    plan = EvaluationPlan(
        packs=tuple(map(str, packs)),
        methods=tuple(methods),
        parameters=_parameters(methods, set_ or []),
        orders=tuple(orders),
        aux=(aux,),
        seeds=_seeds(seed, seeds, orders),
        limit=limit,
        support=None if support is None else str(support),
        checkpoints=tuple(map(str, checkpoint or [])),
        tower=tower,
        join=join,
        guard=guard,
    )
    plan.check()
    output = EvalOutput(json_file, samples, save, every_metric)
    output.check()
    run_plan(plan, output)


def run_plan(plan: EvaluationPlan, output: EvalOutput) -> None:
    """Run every job of a plan. Completed runs are shown and kept, even if a later one is stopped."""
    folder = None if output.folder is None else RunFolder.begin(output.folder)
    jobs = plan.jobs()
    reports: list[Report] = []
    outcomes: list[Outcome] = []
    try:
        for job in jobs:
            with progress_bar(str(job)) as watch:
                recorder = RunRecorder(watch)
                run = run_job(job, watch if folder is None else recorder)
            reports.append(run.report)
            if run.correct_steps is not None:
                outcomes.append((run.report, run.correct_steps))
            if folder is not None:
                folder.add(run, recorder)
            if output.samples is not None:
                run.save_samples(_samples_file(output.samples, run, len(jobs), len(plan.orders)))
    finally:
        if folder is not None:
            folder.finish()
        if reports:
            show_reports(reports, output.json_file, outcomes, every_metric=output.every_metric)


def _parameters(specs: Sequence[str], texts: Sequence[str]) -> dict[str, Mapping[str, Sequence[Any]]]:
    """Give each key=value to the methods that have such a parameter. A key that no method has is refused."""
    kinds = {spec: split_name(spec)[0] for spec in specs}
    values: dict[str, dict[str, Sequence[Any]]] = {spec: {} for spec in specs}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set takes key=value; given {text!r}.")
        users = [spec for spec, kind in kinds.items() if key in parameters.describe(kind)]
        if not users:
            known = {name for kind in kinds.values() for name in parameters.describe(kind)}
            error = unknown_name(f"parameter of {', '.join(specs)}", key, known)
            raise ParameterError(f"{error} All parameters: cosmic methods --json.")
        if any(key in values[spec] for spec in users):
            raise InputError(f"--set sets {key} twice.")
        for spec in users:
            values[spec][key] = (parameters.parse(kinds[spec], key, value),)
    return {spec: chosen for spec, chosen in values.items() if chosen}


def _seeds(seed: int | None, seeds: str | None, orders: Sequence[str]) -> tuple[int, ...]:
    if seeds is None:
        return (seed or 0,)
    if seed is not None:
        raise InputError("give --seed or --seeds, not both.")
    if not any(find_kind(order)[0].seeded for order in orders):
        raise InputError("--seeds has no effect with --order given: the order is the same for every seed.")
    return parse_seeds(seeds)


def _samples_file(file: Path, run: EvaluationRun, runs: int, orders: int) -> Path:
    """Return the file of one run's samples: the one that was named, or one beside it per run."""
    if runs == 1:
        return file
    report = run.report
    order = f".{report.order}" if orders > 1 else ""
    name = re.sub(r"[^\w@.-]", "_", f"{report.pack}{order}.{report.method}@{report.preset}.s{report.seed}")
    return file.with_name(f"{file.stem}.{name}.npz")
