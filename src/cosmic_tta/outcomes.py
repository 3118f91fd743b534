"""Outcome ⇄ files of a folder: `<name>.outcome.json`, and a PNG for every picture.

So an experiment is run once and drawn often; several outcomes can lie in one folder.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cosmic_tta.charts import Chart, Outcome, Series, Table
from cosmic_tta.errors import InputError

FORMAT = 1
ENDING = ".outcome.json"


def write_outcome(outcome: Outcome, folder: str | os.PathLike[str]) -> Path:
    """Write an outcome into a folder; its JSON comes last, whole or not at all."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    charts = []
    for chart in outcome.charts:
        row = {part.name: getattr(chart, part.name) for part in fields(chart)} | {"pictures": []}
        row["series"] = [asdict(series) for series in chart.series]
        for number, (pixels, caption) in enumerate(chart.pictures):
            picture = f"{chart.name}-picture-{number:03}.png"
            Image.fromarray(np.asarray(pixels, np.uint8)).save(path / picture)
            row["pictures"].append([picture, caption])
        charts.append(row)
    told = {part.name: getattr(outcome, part.name) for part in fields(outcome)}
    told |= {"format": FORMAT, "charts": charts, "tables": [asdict(table) for table in outcome.tables]}
    text = json.dumps(_plain(told), indent=1, ensure_ascii=False, allow_nan=False)
    name = outcome.name + ENDING
    unfinished = path / f".{name}.unfinished"
    unfinished.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    unfinished.replace(path / name)
    return path / name


def as_plain(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as values for JSON; pictures are left out, their captions stay."""
    charts = [replace(chart, pictures=[("", caption) for _, caption in chart.pictures]) for chart in outcome.charts]
    plain: dict[str, Any] = _plain(asdict(replace(outcome, charts=charts)))
    return plain


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def outcome_files(folder: str | os.PathLike[str]) -> list[Path]:
    """List the outcomes in a folder, by name."""
    return sorted(Path(folder).glob(f"*{ENDING}"))


def read_outcome(file: str | os.PathLike[str]) -> Outcome:
    """Read an outcome back, or say what is wrong with it."""
    file = Path(file)
    path = file.parent
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            given = told.get("format") if isinstance(told, dict) else None
            raise InputError(f"{str(file)!r} has the format {given!r}; this version reads format {FORMAT}.")
        return Outcome(
            name=str(told["name"]),
            title=str(told["title"]),
            tables=[_table(row) for row in told["tables"]],
            charts=[_chart(row, path) for row in told["charts"]],
            notes=[str(note) for note in told["notes"]],
            missing=[str(reason) for reason in told["missing"]],
            settings=dict(told["settings"]),
        )
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(file)!r} is no outcome of cosmic paper, or damaged: {error}.") from error


def _table(row: dict[str, Any]) -> Table:
    cells = [tuple(cells) for cells in row["rows"]]
    return Table(**(row | {"columns": tuple(row["columns"]), "rows": cells}))


def _chart(row: dict[str, Any], folder: Path) -> Chart:
    series = [Series(**(one | {"y": _numbers(one["y"]), "spread": _numbers(one["spread"])})) for one in row["series"]]
    pictures = [(_pixels(folder / Path(name).name), caption) for name, caption in row["pictures"]]
    ranges = {name: None if row.get(name) is None else tuple(row[name]) for name in ("x_range", "y_range")}
    pairs: dict[str, Any] = {"links": [tuple(one) for one in row["links"]]}
    pairs["outlines"] = [[tuple(corner) for corner in outline] for outline in row.get("outlines", ())]
    cells = [_numbers(cells) for cells in row["cells"]]
    return Chart(**(row | ranges | pairs | {"series": series, "pictures": pictures, "cells": cells}))


def _numbers(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _pixels(file: Path) -> Any:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB"))
