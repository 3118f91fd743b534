"""`cosmic bench`: what a step costs, beside bare array products and the textbook, measured in processes of its own.

`docs/performance.md` says what every figure is.
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

from cosmic_tta.bench_data import Settings
from cosmic_tta.errors import CosmicError, InputError
from cosmic_tta.kernel import path
from cosmic_tta.methods import split_name
from cosmic_tta.prompt_learning import INSTALL
from cosmic_tta.report import machine, software

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
GROWING = ("step", "rebuild", "cold")
RATIOS: Mapping[str, tuple[str, tuple[str, ...], str]] = {  # above, below, goal
    "step/floor_memory": ("step", ("floor_memory",), "≤ 1.5"),
    "rebuild/floor_products": ("rebuild", ("floor_css_product", "floor_afv_product"), "≤ 1.3"),
    "block_gain": ("one_by_one", ("block",), "≥ 2"),
    "textbook_cold/cold": ("textbook_cold", ("cold",), "≥ 40 at 47, ≥ 20 at 102, ≥ 18 at 397 and 1000 classes"),
    "step_8/textbook_tda": ("step_8", ("textbook_tda",), "≤ 1"),
    "bayes_means/floor_bayes": ("bayes_means", ("floor_bayes",), "≤ 3"),
}
LARGE_GOAL = "below 2,000 MB"


def checked(classes: str, methods: str, **numbers: int) -> Settings:
    """Read the words of the command; the rest are whole numbers, at least 1."""
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
        if "tower" in kind.needs and find_spec("torch") is None:
            raise InputError(f"{kind.name} needs torch, not installed: {INSTALL}.")
        if "checkpoint" in kind.needs:
            raise InputError(f"{kind.name} is trained before it is timed: cosmic eval shows its time and memory.")
    for option, given in (("--classes", [*map(int, words)]), ("--methods", specs)):
        if len(set(given)) < len(given):
            raise InputError(f"{option} names one twice: {', '.join(map(str, given))}.")
    return Settings(tuple(sorted(map(int, words))), tuple(specs), **numbers)


def measure(settings: Settings, *, threads: bool, large: bool) -> dict[str, Any]:
    """Measure everything; the result is ready for JSON."""
    learning = [spec for spec in settings.methods if needs_tower(spec)]
    settings = replace(settings, methods=tuple(spec for spec in settings.methods if spec not in learning))
    # Named alone, a method that learns is measured alone: its steps take seconds.
    alone = bool(learning) and not settings.methods
    learned = {spec: _answer("learning", replace(settings, methods=(spec,))) for spec in learning}
    if alone:
        empty: dict[str, Any] = {"classes": {}, "ratios": {}, "exponents": {}, "path": path(), "textbook": "there"}
        named = {"machine": machine(), "software": software(), "settings": asdict(settings)}
        return named | empty | {"learning": learned}
    found = _answer("figures", settings)
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
        result["threads"] = _answer("threads", settings, os.cpu_count() or 1)
    if large:
        print("10000 classes: one graph of texts and centres", file=sys.stderr, flush=True)
        result["large"] = _answer("large", settings)
    return result


def needs_tower(spec: str) -> bool:
    """Tell whether a method learns through the text tower; it is measured in a process of its own."""
    return "tower" in split_name(spec)[0].needs


def ratios(times: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratios whose figures are there.

    >>> ratios({"step": 3.0, "floor_memory": 2.0})
    {'step/floor_memory': 1.5}
    """
    return {
        name: times[above] / sum(times[figure] for figure in below)
        for name, (above, below, _) in RATIOS.items()
        if all(figure in times for figure in (above, *below))
    }


def exponents(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how figures grow with the classes: the slope of a straight line through their logarithms.

    >>> exponents({"10": {"step": 1.0}, "100": {"step": 100.0}})
    {'step': 2.0}
    """
    names = [name for name in GROWING if all(name in times for times in figures.values())]
    return {name: _slope({int(k): times[name] for k, times in figures.items()}) for name in names if len(figures) > 1}


def _slope(points: Mapping[int, float]) -> float:
    x, y = [log(classes) for classes in points], [log(time) for time in points.values()]
    middle = fmean(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def _command(what: str, settings: Settings) -> list[str]:
    return [sys.executable, "-P", "-m", "cosmic_tta.bench_worker", what, json.dumps(asdict(settings))]


def _environment(threads: int) -> dict[str, str]:
    """BLAS reads its threads when NumPy is imported: they are told to a process before it begins."""
    package = str(Path(__file__).resolve().parents[1])  # this very package, wherever the process finds others
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | dict.fromkeys(BLAS_THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(paths)}


def _answer(what: str, settings: Settings, threads: int = 1) -> dict[str, Any]:
    done = subprocess.run(
        _command(what, settings),
        env=_environment(threads),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise CosmicError(
            f"the process that measures ended with exit code {done.returncode}; what it said stands above."
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]  # title, columns, rows


def headline(result: Mapping[str, Any]) -> str:
    """Say where and with what was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in result["software"].items() if name != "path")
    where = result["machine"]
    return f"{where['processor']}, {where['cores']} cores, {where['system']}; {versions}; path: {result['path']}."


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Arrange a result for people."""
    figures, exponent = result["classes"], result["exponents"]
    if not figures:
        return _learning(result)
    names = list(dict.fromkeys(name for times in figures.values() for name in times if name != "state_mb"))
    grows = [tuple([f"{exponent[name]:.2f}" if name in exponent else "–"] if exponent else []) for name in names]
    times = [(name, *_cells(name, figures.values()), *more) for name, more in zip(names, grows, strict=True)]
    sizes = {classes: found["state_mb"] for classes, found in figures.items()}
    kept = [(name, *_cells(name, sizes.values())) for name in next(iter(sizes.values()))]
    compared = result["ratios"]
    shown = [
        (name, *_cells(name, compared.values()), goal)
        for name, (_, _, goal) in RATIOS.items()
        if any(name in row for row in compared.values())
    ]
    growth = ("grows with K to the",) if exponent else ()
    drawn: list[Table] = [
        ("CPU time in ms, one BLAS thread, by the number of classes K", ("figure", *figures, *growth), times),
        ("Size of the state in MB", ("state", *figures), kept),
        ("Ratios", ("ratio", *figures, "goal"), shown),
    ]
    if result.get("threads", {}).get("classes"):
        cores = result["threads"]["cores"]
        walls = [
            (name, classes, *(_number(times[side]) for side in ("one", "all", "ratio")))
            for classes, row in result["threads"]["classes"].items()
            for name, times in row.items()
        ]
        columns = ("figure", "K", "1 BLAS thread", f"{cores} BLAS threads", "ratio")
        drawn.append(("Wall time in ms", columns, walls))
    return drawn + _learning(result)


def _learning(result: Mapping[str, Any]) -> list[Table]:
    rows = [
        (spec, *(_number(found[key]) for key in ("first_s", "step_s", "zero_shot_s", "state_mb", "peak_mb")))
        for spec, found in result.get("learning", {}).items()
    ]
    if not rows:
        return []
    about = next(iter(result["learning"].values()))
    title = (
        f"Methods that learn: {about['views']} views, {about['classes']} classes, a text tower of {about['layers']} "
        f"layers {about['width']} wide ({about['prompt']} tokens a prompt), {about['threads']} thread"
    )
    columns = ("method", "first step, s", "a step, s", "class texts alone, s", "state, MB", "peak memory, MB")
    return [(title, columns, rows)]


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what is in no table."""
    said = []
    if result["textbook"] != "there":
        said.append(f"No figures of the textbook: {result['textbook']}.")
    if "absent" in result.get("threads", {}):
        said.append(f"No figures of several BLAS threads: {result['threads']['absent']}.")
    if "large" in result:
        large = result["large"]
        said.append(
            f"One graph of {large['nodes']:,} nodes ({large['classes']:,} classes): {large['rebuild_s']:.1f} s, "
            f"peak memory {large['peak_mb']:,.0f} MB (goal: {LARGE_GOAL})."
        )
    return said


def _cells(name: str, columns: Sequence[Mapping[str, float]] | Any) -> tuple[str, ...]:
    return tuple(_number(column[name]) if name in column else "–" for column in columns)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{3 if value < 10 else 2 if value < 100 else 1}f}"
