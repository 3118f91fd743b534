"""Reports: the metrics, costs and settings of one run, and their JSON form."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import InputError
from cosmic_tta.core.kernel import path
from cosmic_tta.core.parameters import describe
from cosmic_tta.methods import METHODS

METRIC_TOLERANCE = 1e-6  # metrics of one job may differ by this much between machines


@dataclass(frozen=True)
class Report:
    """The result of one method on one stream. Metrics are fractions of one; without labels there are none.

    Example:
        >>> from cosmic_tta.evaluation import run_evaluation
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> report = run_evaluation(make_method("tda", shots=2), superclass_pack(images=20)).report
        >>> report.title, report.order, report.n
        ('tda shots=2', 'shuffle', 20)
    """

    pack: str
    method: str
    preset: str
    params: dict[str, Any]
    order: str
    aux: str
    seed: int
    n: int  # steps
    metrics: dict[str, float]
    ms_per_sample: float
    state_mb: float
    software: dict[str, str]
    machine: dict[str, Any]
    counted: int | None = None  # steps that accuracy counts; None: all n
    note: str = ""  # of the stream

    @property
    def title(self) -> str:
        """The method and its preset, with the parameters that differ from the preset."""
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
    """Return the versions that a result depends on."""
    found = {"python": platform.python_version(), "path": path()}
    for package in ("cosmic-tta", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Return the machine that a time was measured on."""
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
    """Read reports from the JSON of `as_rows`."""
    known = {part.name for part in fields(Report)}
    needed = {part.name for part in fields(Report) if part.default is MISSING}
    try:
        rows = json.loads(text)
        if not all(needed <= set(row) <= known for row in rows):
            raise ValueError(f"each report must have the fields {', '.join(sorted(needed))}")
        return [Report(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise InputError(f"this is no list of reports: {error}") from error


def merge(*collections: Mapping[str, Report]) -> dict[str, Report]:
    """Merge reports by the digests of their jobs, in order of first appearance.

    Two reports of one job must have equal metrics, up to rounding. Their times may differ; the first one is kept.

    Raises:
        InputError: Two reports of one job have different metrics.
    """
    merged: dict[str, Report] = {}
    for digest, report in (item for collection in collections for item in collection.items()):
        known = merged.setdefault(digest, report)
        if set(known.metrics) != set(report.metrics) or any(
            abs(known.metrics[name] - value) > METRIC_TOLERANCE for name, value in report.metrics.items()
        ):
            raise InputError(
                f"two reports of {report.title} on {report.pack}, {report.order}, seed {report.seed} contradict each "
                f"other: {known.metrics} and {report.metrics}. Were they made by different versions or machines?"
            )
    return merged
