"""`cosmic benchmark`: options → benchmark plan → sweep → tables, files and a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta.cli.commands.sweep import exit_with_failures, finished_runs_kept, refuse_file
from cosmic_tta.cli.options import Limit, parse_names, parse_seeds
from cosmic_tta.cli.terminal import complain, counter, say
from cosmic_tta.core import parameters
from cosmic_tta.core.errors import InputError, ParameterError, unknown_name
from cosmic_tta.core.version import __version__
from cosmic_tta.evaluation.benchmark import (
    DEFAULT_AUX,
    DEFAULT_SEEDS,
    DEFAULT_STREAMS,
    BenchmarkPlan,
    default_methods,
    find_packs,
)
from cosmic_tta.evaluation.benchmark_summary import LeftOutResult, average_seeds, leave_one_out
from cosmic_tta.evaluation.jobs import Job, open_pack, report_file, stored_report
from cosmic_tta.evaluation.report import Report
from cosmic_tta.evaluation.streams.registry import STREAMS
from cosmic_tta.evaluation.sweep import SweepResult, sweep
from cosmic_tta.features.pack import AUX_KINDS
from cosmic_tta.methods import split_name
from cosmic_tta.reporting.benchmark_page import BenchmarkDescription, benchmark_markdown, write_benchmark
from cosmic_tta.reporting.plotting.requirements import INSTALL, can_draw
from cosmic_tta.reporting.tables import counted

STREAMS_TEXT, AUX_TEXT = ",".join(DEFAULT_STREAMS), ",".join(DEFAULT_AUX)
SEEDS_TEXT = ",".join(map(str, DEFAULT_SEEDS))
RUNS = "runs"  # the folder of the sweep's results, in that of the benchmark

Packs = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PACK", help="Packs, or folders that hold packs. Default: the current folder."),
]
Methods = Annotated[
    str | None,
    typer.Option(metavar="NAME[@PRESET][,...]", help="Methods. Default: all that need features alone, every preset."),
]
Streams = Annotated[str, typer.Option(metavar="KIND[:NUMBER][,...]", help=f"Kinds of streams: {', '.join(STREAMS)}.")]
Aux = Annotated[str, typer.Option(metavar="KIND[,...]", help=f"Auxiliary features: {', '.join(AUX_KINDS)}.")]
Seeds = Annotated[str, typer.Option(metavar="S,S,...", help="One run per seed.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=A[,B...]",
        help="Values to try, beside the preset's. Lists: KEY='1,1,1;1,0.1,3'. Repeatable.",
    ),
]
LeaveOneOut = Annotated[
    bool,
    typer.Option(
        "--leave-one-out", help="Choose the --set values of one method on all data sets but one; measure them there."
    ),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Processes. Default: one per core. 0: run in this process.")
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Results; the same folder again continues.")]


def benchmark(
    context: typer.Context,
    packs: Packs = None,
    methods: Methods = None,
    streams: Streams = STREAMS_TEXT,
    aux: Aux = AUX_TEXT,
    seeds: Seeds = SEEDS_TEXT,
    limit: Limit = None,
    set_: Settings = None,
    leave_one_out_: LeaveOneOut = False,
    workers: Workers = None,
    out: Out = Path("cosmic-benchmark"),
) -> None:
    """Measure accuracy: run methods × packs × streams × seeds and compare their gains over zero-shot.

    If it was stopped, run it again: finished runs are skipped. `cosmic bench` measures speed.
    """
    specs = default_methods() if methods is None else tuple(parse_names("--methods", methods))
    plan = BenchmarkPlan(
        find_packs(packs or [Path()]),
        specs,
        tuple(parse_names("--streams", streams)),
        tuple(parse_names("--aux", aux)),
        parse_seeds(seeds),
        limit,
        parse_values(specs, set_ or []),
    )
    if workers is not None and workers < 0:
        raise InputError(f"--workers must be 0 or more; given {workers}.")
    plan.check()
    if leave_one_out_:
        check_leave_one_out(plan)
    folder = out / RUNS
    refuse_file(out)
    refuse_file(folder)
    for reason in plan.left_out:
        complain(reason)
    jobs = plan.jobs
    damaged = damaged_results(jobs, folder)
    if damaged:
        complain(f"damaged or half-written results in {str(folder)!r}: {damaged}; their runs are made again.")
    with finished_runs_kept(folder), counter("benchmark", "runs") as count:
        done = sweep(jobs, folder, workers=workers, watch=count)
    show_results(plan, done, out, command_line(context), chosen=leave_one_out_)


def show_results(plan: BenchmarkPlan, done: SweepResult, out: Path, command: str, *, chosen: bool) -> None:
    """Print the tables and write them; name what failed and end with exit code 1 if anything did."""
    failed = tuple(f"Failed: {job}: {reason}" for job, reason in done.failures)
    names = tuple(dict.fromkeys(report.pack for report in done.reports))
    description = BenchmarkDescription(__version__, command, names, plan.seeds, (*plan.left_out, *failed))
    if done.reports:
        left_out = _leave_one_out(plan, done.reports) if chosen else []
        print(benchmark_markdown(done.reports, description, left_out))
        files = write_benchmark(out, done.reports, description, left_out)
        made = len(done.reports) - done.skipped
        runs = f"{len(done.reports)} of {counted(len(plan.jobs), 'run')}"
        say(f"{runs}: {made} run now, {done.skipped} were there before.")
        say(f"Written: {', '.join(map(str, files))}")
        if not can_draw():
            say(f"To get an HTML page too: {INSTALL}.")
    exit_with_failures(done, len(plan.jobs))


def check_leave_one_out(plan: BenchmarkPlan) -> None:
    """Refuse, before any run, what `--leave-one-out` cannot choose from."""
    if len(plan.methods) != 1 or not plan.parameters:
        raise InputError(
            "--leave-one-out chooses the parameters of one method: give --methods NAME and --set KEY=A,B with the "
            "values to choose from."
        )
    names = list(dict.fromkeys(plan.datasets[open_pack(job.pack).name] for job in plan.jobs))
    if len(names) < 2:
        raise InputError(
            f"--leave-one-out takes packs of at least two data sets; given {', '.join(names)}. Packs with the same "
            "classes count as one."
        )


def _leave_one_out(plan: BenchmarkPlan, reports: Sequence[Report]) -> list[LeftOutResult]:
    """Return what was chosen; nothing, with the reason on stderr, if runs that are missing forbid it."""
    (spec,) = plan.methods
    kind, preset = split_name(spec)
    try:
        return leave_one_out(average_seeds(reports), plan.datasets, kind.name if preset == "default" else spec)
    except InputError as error:
        complain(f"--leave-one-out: {error}")
        return []


def damaged_results(jobs: Sequence[Job], folder: Path) -> int:
    """Count the result files that are there and cannot be read."""
    there = [job for job in jobs if report_file(folder, job).exists()]
    return sum(stored_report(job, folder) is None for job in there)


def parse_values(specs: Sequence[str], texts: Sequence[str]) -> dict[str, Mapping[str, Sequence[Any]]]:
    """Give the values of each KEY=A,B to the methods that have such a parameter.

    >>> parse_values(["tda", "cosmic"], ["shots=2,4"])["tda"]
    {'shots': (2.0, 4.0)}
    >>> parse_values(["cosmic"], ["weights=1,1,1;1,0.1,3"])["cosmic"]
    {'weights': ((1.0, 1.0, 1.0), (1.0, 0.1, 3.0))}
    """
    kinds = {spec: split_name(spec)[0] for spec in specs}
    values: dict[str, dict[str, Sequence[Any]]] = {}
    for text in texts:
        key, equals, listed = text.partition("=")
        if not equals or not listed.strip(",; "):
            raise InputError(f"--set takes key=value or key=value,value; given {text!r}.")
        users = [spec for spec, kind in kinds.items() if key in parameters.describe(kind)]
        if not users:
            known = {name for kind in kinds.values() for name in parameters.describe(kind)}
            error = unknown_name(f"parameter of {', '.join(specs)}", key, known)
            raise ParameterError(f"{error} All parameters: cosmic methods --json.")
        for spec in users:
            own = values.setdefault(spec, {})
            if key in own:
                raise InputError(f"--set sets {key} twice; give its values in one: --set {key}=A,B.")
            is_list = parameters.describe(kinds[spec])[key]["type"].endswith("numbers")
            words = [word.strip() for word in listed.split(";" if is_list else ",") if word.strip()]
            own[key] = tuple(dict.fromkeys(parameters.parse(kinds[spec], key, word) for word in words))
    return dict(values)


def command_line(context: typer.Context) -> str:
    """Return the command with its options that differ from the defaults."""
    words = ["cosmic", "benchmark"]
    for option in context.command.params:
        value = context.params.get(option.name or "")
        name = option.opts[0]
        if value is None or value == option.default or value == []:
            continue
        if not name.startswith("--"):
            words += map(str, value)
        elif value is True:
            words.append(name)
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [name, str(one)]
    included = (context.parent.params.get("include_files") if context.parent else None) or []
    return shlex.join([*words, *(word for file in included for word in ("--include", str(file)))])
