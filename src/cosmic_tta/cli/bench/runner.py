"""Starts the worker processes of `cosmic bench`, and turns their figures into ratios and tables.

`docs/guide/performance.md` explains every figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

from cosmic_tta.cli.bench.workload import BenchSettings
from cosmic_tta.core.errors import CosmicError, InputError, missing_packages
from cosmic_tta.core.kernel import path
from cosmic_tta.evaluation.report import machine, software
from cosmic_tta.features.text_towers import needs_prompt_tower
from cosmic_tta.methods import split_name
from cosmic_tta.methods.prompt_tuning.context import INSTALL

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
GROWTH_FIGURES = ("step", "rebuild", "cold")  # whose growth with the number of classes is shown
RATIOS: Mapping[str, tuple[str, tuple[str, ...], str]] = {  # numerator, summands of the denominator, goal
    "step/floor_memory": ("step", ("floor_memory",), "≤ 1.5"),
    "rebuild/floor_products": ("rebuild", ("floor_css_product", "floor_afv_product"), "≤ 1.3"),
    "block_gain": ("one_by_one", ("block",), "≥ 2"),
    "textbook_cold/cold": ("textbook_cold", ("cold",), "≥ 40 at 47, ≥ 20 at 102, ≥ 18 at 397 and 1000 classes"),
    "step_8/textbook_tda": ("step_8", ("textbook_tda",), "≤ 1"),
    "bayes_means/floor_bayes": ("bayes_means", ("floor_bayes",), "≤ 3"),
}
LARGE_GOAL = "below 2,000 MB"


def parse_settings(classes: str, methods: str, **numbers: int) -> BenchSettings:
    """Parse the options of the command. All numbers must be at least 1."""
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1; given {value}.")
    words = [word.strip() for word in classes.split(",")]
    if not all(word.isdecimal() and int(word) > 1 for word in words):
        raise InputError(f"--classes takes whole numbers, at least 2, with commas between; given {classes!r}.")
    specs = []
    for spec in filter(None, map(str.strip, methods.split(","))):
        kind, preset = split_name(spec)
        specs.append(kind.name if preset == "default" else f"{kind.name}@{preset}")
        if needs_prompt_tower(kind) and find_spec("torch") is None:
            raise InputError(missing_packages(f"{kind.name} needs", ["torch"], INSTALL))
        if "checkpoint" in kind.needs:
            raise InputError(f"{kind.name} needs a checkpoint; cosmic eval shows its time and memory instead.")
    for option, entries in (("--classes", [*map(int, words)]), ("--methods", specs)):
        if len(set(entries)) < len(entries):
            raise InputError(f"{option} names one twice: {', '.join(map(str, entries))}.")
    return BenchSettings(tuple(sorted(map(int, words))), tuple(specs), **numbers)


def measure(settings: BenchSettings, *, threads: bool, large: bool) -> dict[str, Any]:
    """Measure everything and return plain values, ready for JSON."""
    learning = [spec for spec in settings.methods if needs_prompt_tower(split_name(spec)[0])]
    settings = replace(settings, methods=tuple(spec for spec in settings.methods if spec not in learning))
    # If only methods that learn prompts are named, nothing else is measured, because their steps take seconds.
    learning_only = bool(learning) and not settings.methods
    learned = {spec: _run_worker("learning", replace(settings, methods=(spec,))) for spec in learning}
    if learning_only:
        empty: dict[str, Any] = {"classes": {}, "ratios": {}, "exponents": {}, "path": path(), "textbook": "there"}
        named = {"machine": machine(), "software": software(), "settings": asdict(settings)}
        return named | empty | {"learning": learned}
    found = _run_worker("figures", settings)
    result = {
        "machine": machine(),
        "software": software(),
        "path": found["path"],
        "textbook": found["textbook"],
        "settings": asdict(settings),
        "classes": found["classes"],
        "ratios": {classes: ratios(times) for classes, times in found["classes"].items()},
        "exponents": exponents(found["classes"]),
    }
    if learned:
        result["learning"] = learned
    if threads:
        result["threads"] = _run_worker("threads", settings, os.cpu_count() or 1)
    if large:
        print("10000 classes: one graph of texts and centres", file=sys.stderr, flush=True)
        result["large"] = _run_worker("large", settings)
    return result


def ratios(times: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratios whose figures were measured.

    >>> ratios({"step": 3.0, "floor_memory": 2.0})
    {'step/floor_memory': 1.5}
    """
    return {
        name: times[numerator] / sum(times[figure] for figure in denominator)
        for name, (numerator, denominator, _) in RATIOS.items()
        if all(figure in times for figure in (numerator, *denominator))
    }


def exponents(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the exponents with which figures grow with the number of classes, fitted in log-log space.

    >>> exponents({"10": {"step": 1.0}, "100": {"step": 100.0}})
    {'step': 2.0}
    """
    names = [name for name in GROWTH_FIGURES if all(name in times for times in figures.values())]
    return {name: _slope({int(k): times[name] for k, times in figures.items()}) for name in names if len(figures) > 1}


def _slope(points: Mapping[int, float]) -> float:
    x, y = [log(classes) for classes in points], [log(time) for time in points.values()]
    middle = fmean(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def _command(what: str, settings: BenchSettings) -> list[str]:
    return [sys.executable, "-P", "-m", "cosmic_tta.cli.bench.worker", what, json.dumps(asdict(settings))]


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker. BLAS reads its threads when NumPy is imported, so they are set here."""
    package = str(Path(__file__).resolve().parents[3])  # the worker must import this package and no installed one
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | dict.fromkeys(BLAS_THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(paths)}


def _run_worker(what: str, settings: BenchSettings, threads: int = 1) -> dict[str, Any]:
    done = subprocess.run(
        _command(what, settings),
        env=_environment(threads),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise CosmicError(f"the measuring process ended with exit code {done.returncode}; its messages are above.")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]  # title, columns, rows


def headline(result: Mapping[str, Any]) -> str:
    """Return one line about the machine and the software."""
    versions = ", ".join(f"{name} {version}" for name, version in result["software"].items() if name != "path")
    where = result["machine"]
    return f"{where['processor']}, {where['cores']} cores, {where['system']}; {versions}; path: {result['path']}."


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Return a result as tables for the terminal."""
    figures, exponent = result["classes"], result["exponents"]
    if not figures:
        return _learning_tables(result)
    names = list(dict.fromkeys(name for times in figures.values() for name in times if name != "state_mb"))
    growth = [tuple([f"{exponent[name]:.2f}" if name in exponent else "–"] if exponent else []) for name in names]
    times = [(name, *_cells(name, figures.values()), *cell) for name, cell in zip(names, growth, strict=True)]
    sizes = {classes: found["state_mb"] for classes, found in figures.items()}
    states = [(name, *_cells(name, sizes.values())) for name in next(iter(sizes.values()))]
    compared = result["ratios"]
    ratio_rows = [
        (name, *_cells(name, compared.values()), goal)
        for name, (_, _, goal) in RATIOS.items()
        if any(name in row for row in compared.values())
    ]
    growth_column = ("exponent of K",) if exponent else ()
    found: list[Table] = [
        ("CPU time in ms, one BLAS thread, by the number of classes K", ("figure", *figures, *growth_column), times),
        ("Size of the state in MB", ("state", *figures), states),
        ("Ratios", ("ratio", *figures, "goal"), ratio_rows),
    ]
    if result.get("threads", {}).get("classes"):
        cores = result["threads"]["cores"]
        walls = [
            (name, classes, *(_number(times[side]) for side in ("one", "all", "ratio")))
            for classes, row in result["threads"]["classes"].items()
            for name, times in row.items()
        ]
        columns = ("figure", "K", "1 BLAS thread", f"{cores} BLAS threads", "ratio")
        found.append(("Wall time in ms", columns, walls))
    return found + _learning_tables(result)


def _learning_tables(result: Mapping[str, Any]) -> list[Table]:
    rows = [
        (spec, *(_number(found[key]) for key in ("first_s", "step_s", "zero_shot_s", "state_mb", "peak_mb")))
        for spec, found in result.get("learning", {}).items()
    ]
    if not rows:
        return []
    setup = next(iter(result["learning"].values()))
    title = (
        f"Methods that learn prompts: {setup['views']} views, {setup['classes']} classes, a text tower of "
        f"{setup['layers']} layers {setup['width']} wide ({setup['prompt']} tokens per prompt), "
        f"{setup['threads']} thread"
    )
    columns = ("method", "first step, s", "step, s", "class texts alone, s", "state, MB", "peak memory, MB")
    return [(title, columns, rows)]


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Return what is in no table, one sentence each."""
    sentences = []
    if result["textbook"] != "there":
        sentences.append(f"The textbook was not measured: {result['textbook']}.")
    if "absent" in result.get("threads", {}):
        sentences.append(f"Several BLAS threads were not measured: {result['threads']['absent']}.")
    if "large" in result:
        large = result["large"]
        sentences.append(
            f"One graph of {large['nodes']:,} nodes ({large['classes']:,} classes): {large['rebuild_s']:.1f} s, "
            f"peak memory {large['peak_mb']:,.0f} MB (goal: {LARGE_GOAL})."
        )
    return sentences


def _cells(name: str, columns: Sequence[Mapping[str, float]] | Any) -> tuple[str, ...]:
    return tuple(_number(column[name]) if name in column else "–" for column in columns)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{3 if value < 10 else 2 if value < 100 else 1}f}"
