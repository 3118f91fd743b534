"""Result sets as files of a folder: `<name>.results.json`, and one PNG per image.

An experiment runs once and can be drawn many times. A folder can hold several result sets.
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

from cosmic_tta.core.errors import InputError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, Table

FORMAT = 2
SUFFIX = ".results.json"


def write_result_set(results: ResultSet, folder: str | os.PathLike[str]) -> Path:
    """Write a result set into a folder: first its images, then its JSON in one step; return the JSON file."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    charts = []
    for chart in results.charts:
        row = {part.name: getattr(chart, part.name) for part in fields(chart)} | {"images": []}
        row["series"] = [asdict(series) for series in chart.series]
        for number, (pixels, caption) in enumerate(chart.images):
            image = f"{chart.name}-image-{number:03}.png"
            Image.fromarray(np.asarray(pixels, np.uint8)).save(path / image)
            row["images"].append([image, caption])
        charts.append(row)
    content = {part.name: getattr(results, part.name) for part in fields(results)}
    content |= {"format": FORMAT, "charts": charts, "tables": [asdict(table) for table in results.tables]}
    text = json.dumps(_to_json(content), indent=1, ensure_ascii=False, allow_nan=False)
    file = path / f"{results.name}{SUFFIX}"
    write_atomic(file, f"{text}\n".encode("utf-8", "backslashreplace"))
    return file


def as_json(results: ResultSet) -> dict[str, Any]:
    """Return a result set as values for JSON, with the captions of its images but without their pixels."""
    charts = [replace(chart, images=[("", caption) for _, caption in chart.images]) for chart in results.charts]
    values: dict[str, Any] = _to_json(asdict(replace(results, charts=charts)))
    return values


def _to_json(value: Any) -> Any:
    """Return a value as JSON represents it; a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def result_files(folder: str | os.PathLike[str]) -> list[Path]:
    """List the result sets in a folder, by name."""
    return sorted(Path(folder).glob(f"*{SUFFIX}"))


def read_result_set(file: str | os.PathLike[str]) -> ResultSet:
    """Read a result set back; raise InputError if the file is damaged or has another format."""
    file = Path(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = content.get("format") if isinstance(content, dict) else None
        if found != FORMAT:
            raise InputError(
                f"{str(file)!r} has the format {found!r}; expected format {FORMAT}. Run the experiment again."
            )
        return ResultSet(
            name=str(content["name"]),
            title=str(content["title"]),
            tables=[_read_table(row) for row in content["tables"]],
            charts=[_read_chart(row, file.parent) for row in content["charts"]],
            notes=[str(note) for note in content["notes"]],
            missing=[str(reason) for reason in content["missing"]],
            settings=dict(content["settings"]),
        )
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{str(file)!r} is damaged, or not a file that `cosmic paper --out` wrote: {error}. Run the experiment "
            "again."
        ) from error


def _read_table(row: dict[str, Any]) -> Table:
    cells = [tuple(cells) for cells in row["rows"]]
    return Table(**(row | {"columns": tuple(row["columns"]), "rows": cells}))


def _read_chart(row: dict[str, Any], folder: Path) -> Chart:
    series = [
        Series(**(values | {"y": _with_nan(values["y"]), "deviations": _with_nan(values["deviations"])}))
        for values in row["series"]
    ]
    images = [(_read_pixels(folder / Path(name).name), caption) for name, caption in row["images"]]
    ranges = {name: None if row.get(name) is None else tuple(row[name]) for name in ("x_range", "y_range")}
    pairs: dict[str, Any] = {"links": [tuple(link) for link in row["links"]]}
    pairs["outlines"] = [[tuple(corner) for corner in outline] for outline in row.get("outlines", ())]
    cells = [_with_nan(cells) for cells in row["cells"]]
    return Chart(**(row | ranges | pairs | {"series": series, "images": images, "cells": cells}))


def _with_nan(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _read_pixels(file: Path) -> Any:
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))
