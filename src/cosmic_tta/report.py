"""Report ⇄ JSON, and the tables people read."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cosmic_tta.errors import InputError
from cosmic_tta.kernel import path
from cosmic_tta.methods import METHODS
from cosmic_tta.parameters import describe


@dataclass(frozen=True)
class Report:
    """One run of one method over one pack. Metrics are fractions of one; without labels there are none."""

    pack: str
    method: str
    preset: str
    params: dict[str, Any]
    order: str
    aux: str
    seed: int
    n: int
    metrics: dict[str, float]
    ms_per_sample: float
    state_mb: float
    software: dict[str, str]
    machine: dict[str, Any]

    @property
    def title(self) -> str:
        """The method as one would ask for it, with the parameters that differ from its preset."""
        name = self.method if self.preset == "default" else f"{self.method}@{self.preset}"
        if self.method not in METHODS:
            return name
        kind = METHODS[self.method]
        usual = {key: row["default"] for key, row in describe(kind).items()} | dict(kind.presets.get(self.preset, {}))
        changed = [f"{key}={value}" for key, value in self.params.items() if value != _plain(usual.get(key))]
        return " ".join([name, *changed])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def software() -> dict[str, str]:
    """Name the versions that a figure depends on."""
    found = {"python": platform.python_version(), "path": path()}
    for package in ("cosmic-tta", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Name the machine that a figure was measured on."""
    return {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def as_rows(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return reports as plain values, ready for JSON."""
    return [asdict(report) for report in reports]


def from_json(text: str) -> list[Report]:
    """Read back the JSON of what `as_rows` gave."""
    wanted = {part.name for part in fields(Report)}
    try:
        rows = json.loads(text)
        if not all(set(row) == wanted for row in rows):
            raise ValueError(f"each report must have exactly the fields {', '.join(sorted(wanted))}")
        return [Report(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise InputError(f"this is no list of reports: {error}") from error


COLUMNS = ("method", "accuracy", "zero-shot", "gain", "top-5", "ECE", "ms/sample")


def sections(reports: Iterable[Report]) -> dict[str, list[tuple[str, ...]]]:
    """Group reports into tables, one a pack and stream, with rows under COLUMNS: seeds are averaged.

    Zero-shot stands beside every method; ± is the deviation between seeds.
    """
    streams: dict[tuple[str, str, str], dict[str, list[Report]]] = {}
    for report in reports:
        methods = streams.setdefault((report.pack, report.order, report.aux), {})
        methods.setdefault(report.title, []).append(report)
    tables = {}
    for (pack, order, aux), methods in streams.items():
        sizes = sorted({report.n for group in methods.values() for report in group})
        n = " to ".join(map(str, sizes[:1] + sizes[1:][-1:]))
        order = order if aux == "given" else f"{order}, aux {aux}"
        seeds = sorted({report.seed for group in methods.values() for report in group})
        seeded = "" if order.startswith("given") else f", seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        tables[f"{pack}: {n} images, {order}{seeded}"] = [_row(title, group) for title, group in methods.items()]
    return tables


def _row(title: str, group: Sequence[Report]) -> tuple[str, ...]:
    def percent(metric: str, form: str = ".2f", *, spread: bool = False) -> str:
        values = [100 * report.metrics[metric] for report in group if metric in report.metrics]
        if not values:
            return "–"
        deviation = f" ± {stdev(values):.2f}" if spread and len(values) > 1 else ""
        return f"{round(fmean(values), 2) + 0.0:{form}}{deviation}"  # + 0.0: never -0.00

    return (
        title,
        percent("acc1", spread=True),
        percent("zero_shot_acc1"),
        percent("gain", "+.2f"),
        percent("acc5"),
        percent("ece"),
        f"{fmean(report.ms_per_sample for report in group):.2f}",
    )


def markdown(reports: Iterable[Report]) -> str:
    """Return the tables in markdown."""
    blocks = []
    for title, rows in sections(reports).items():
        lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
        blocks.append("\n".join([f"**{title}**", "", *(f"| {' | '.join(line)} |" for line in lines)]))
    return "\n\n".join(blocks)
