from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, Table
from cosmic_tta.reporting.plotting.plotly_backend import plotly_figure
from cosmic_tta.reporting.result_files import as_json, read_result_set, result_files, write_result_set
from tests.support.sample_charts import CHARTS, PIXELS

TABLE = Table("numbers", "Numbers_%", ("name", "value"), [("a_b", 1.5), ("c", None)], "A note.")
RESULTS = ResultSet("tried", "Tried", [TABLE], list(CHARTS.values()), ["a note"], ["absent"], {"seed": 0})


def test_a_result_set_is_read_back_as_it_was(tmp_path: Path) -> None:
    file = write_result_set(RESULTS, tmp_path)
    assert result_files(tmp_path) == [file] == [tmp_path / "tried.results.json"]
    read = read_result_set(file)
    assert (read.name, read.title, read.notes, read.missing) == ("tried", "Tried", ["a note"], ["absent"])
    assert read.tables == [TABLE]
    assert read.settings == {"seed": 0}
    assert np.isnan(read.charts[0].series[0].y[2])
    assert np.array_equal(read.charts[-1].images[0][0], PIXELS)
    assert read.charts[-2].links == [(0, 1), (1, 2)]
    drawn = [plotly_figure(chart) for chart in CHARTS.values() if chart.kind != "images"]
    assert [plotly_figure(chart) for chart in read.charts[:-1]] == drawn


def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.results.json"
    for text, message in (
        ("{", "damaged"),
        ("[]", "format None"),
        ('{"format": 1}', "has the format 1; expected format 2"),
        ('{"format": 9}', "has the format 9; expected format 2"),
        ('{"format": 2}', "damaged"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_result_set(file)


def test_json_has_captions_but_no_pixels() -> None:
    values = as_json(RESULTS)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["charts"][-1]["images"] == [["", "head\nand more"], ["", "other"]]


def test_numbers_that_are_not_finite_are_null() -> None:
    series = Series("a", [np.int64(1), np.float32(2)], [float("inf"), float("nan")])
    (chart,) = as_json(ResultSet("a", "A", charts=[Chart("c", "C", "lines", series=[series])]))["charts"]
    assert chart["series"] == [asdict(series) | {"x": [1, 2.0], "y": [None, None], "deviations": [], "point_texts": []}]
