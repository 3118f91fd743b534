from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper.seed_accuracy import labels_in_order, top1_fraction

RunSmall = Callable[..., ResultSet]


def cell(results: ResultSet, row: str, column: str = "cosmic@paper") -> Any:
    table = results.tables[0]
    return next(line[table.columns.index(column)] for line in table.rows if line[0] == row)


def number(text: Any) -> float:
    return float(re.match(r"[-+0-9.]+", str(text)).group())  # type: ignore[union-attr]


def test_experiments_agree_on_the_same_setting(run_small: RunSmall) -> None:
    full = cell(run_small("graph-ablation"), "CLIP + CSS + AFV")
    assert full == cell(run_small("cache-size"), "8") == cell(run_small("afv-centre"), "mean")
    assert full == cell(run_small("ratio"), "0.2") == cell(run_small("aux-encoder"), "generated")
    assert full == cell(run_small("components"), "+ DSG + CGH (the preset's r)")
    assert cell(run_small("components"), "+ DSG, no mask (r = 1)") == cell(run_small("ratio"), "1")
    surface = run_small("fusion-surface").tables[0]
    assert number(full) == pytest.approx(float(surface.rows[0][2]), abs=0.01)  # type: ignore[arg-type]
    assert cell(run_small("aux-encoder"), "none") == cell(run_small("graph-ablation"), "CLIP + CSS")


def test_a_branch_alone_is_judged_by_its_own_scores(run_small: RunSmall, small: FeaturePack) -> None:
    context = ExperimentContext((small,), seeds=(0, 1))
    runs = [context.run("cosmic@paper", small, seed) for seed in (0, 1)]
    accuracies = [100 * top1_fraction(run.parts["css"], labels_in_order(run, small)) for run in runs]
    assert number(cell(run_small("graph-ablation"), "CSS")) == pytest.approx(sum(accuracies) / 2, abs=0.005)


def test_views_are_counted_up_to_those_of_the_pack(run_small: RunSmall) -> None:
    (table,) = run_small("views").tables
    assert [row[0] for row in table.rows] == ["CLIP", "1", "2", "4"]
    (chart,) = run_small("views").charts
    assert chart.kind == "lines"
    assert all(list(series.x) == [1, 2, 4] for series in chart.series)


def test_settings_without_an_order_are_bars(run_small: RunSmall) -> None:
    assert [chart.kind for chart in run_small("afv-centre").charts] == ["bars"]


def test_hyper_classes_are_counted(run_small: RunSmall) -> None:
    table = run_small("components").tables[-1]
    assert table.name == "components-hyper-classes"
    assert [row[1] for row in table.rows] == ["cosmic@paper", "cosmic@official", "cosmic"]
    assert all(isinstance(count, int) and count > 0 for row in table.rows for count in row[4:])
