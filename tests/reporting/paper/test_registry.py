"""All experiments on small packs, and the command that runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import UnknownNameError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper import EXPERIMENTS, ExperimentContext, find_experiment, run_experiment
from cosmic_tta.reporting.paper.published import published_data, published_number
from cosmic_tta.reporting.plotting.plotly_backend import plotly_figure
from cosmic_tta.reporting.tables import is_oracle_column

MEASURED = (
    "table-ood", "table-cd", "efficiency", "graph-ablation", "aux-encoder", "fusion-surface", "components", "ratio",
    "cache-size", "views", "afv-centre", "overhead",
)  # fmt: skip
DRAWN = {
    "affinity": ["heatmap"] * 2,
    "clusters": ["points"] * 2,
    "tsne-classes": ["points"] * 3,
    "tsne-caches": ["points"] * 2,
    "attention": ["images"],
    "retrieved-classes": ["images"],
}
RunSmall = Callable[..., ResultSet]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def own_columns(results: ResultSet) -> dict[tuple[str, str], list[Any]]:
    """The cells of every column that is not published, by table and column."""
    return {
        (table.name, column): [row[index] for row in table.rows]
        for table in results.tables
        if table.columns[0] != "published" and not table.name.endswith("published")
        for index, column in enumerate(table.columns)
        if "published" not in column
    }


def test_every_experiment_is_tested_here() -> None:
    assert {*MEASURED, *DRAWN} == set(EXPERIMENTS)


@pytest.mark.parametrize("name", MEASURED)
def test_an_experiment_gives_complete_tables_and_charts(name: str, run_small: RunSmall) -> None:
    results = run_small(name)
    assert results.name == name
    assert results.tables
    names = [table.name for table in results.tables] + [chart.name for chart in results.charts]
    assert all(re.fullmatch("[a-z0-9-]+", one) for one in names)
    assert len({table.name for table in results.tables}) == len(results.tables)
    for table in results.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    for chart in results.charts:
        assert chart.series
        for series in chart.series:
            assert len(series.x) == len(series.y)
            assert len(series.deviations) in (0, len(series.y))
            assert np.isfinite(series.y).all()
    assert results.settings["seeds"] == [0, 1]


@pytest.mark.parametrize("name", DRAWN)
def test_an_experiment_with_images_or_projections_is_drawn(name: str, pack: FeaturePack, few_images: None) -> None:
    results = run_experiment(name, ExperimentContext(packs=(pack,), seeds=(0,)))
    assert results.name == name
    assert [chart.kind for chart in results.charts] == DRAWN[name]
    for chart in results.charts:
        assert chart.images if chart.kind == "images" else plotly_figure(chart)["data"]
    replaced = "its images are not available" in " ".join(results.missing)
    assert replaced == (name in ("attention", "retrieved-classes"))


@pytest.mark.parametrize("name", MEASURED)
def test_no_oracle_number_is_in_a_label_free_column(name: str, run_small: RunSmall) -> None:
    """The oracle adds columns with `oracle` in their name, and changes no other."""
    before, after = own_columns(run_small(name)), own_columns(run_small(name, oracle=True))
    added = set(after) - set(before)
    assert all(is_oracle_column(column) for _, column in added)
    if name != "fusion-surface":  # it needs labels with and without the option
        assert not any(is_oracle_column(column) for _, column in before)
        assert bool(added) == (name not in ("efficiency", "aux-encoder", "overhead"))
    for key, cells in before.items():
        if "ms" not in key[1] and name != "overhead":  # times differ from run to run
            assert cells == after[key]


@pytest.mark.parametrize("name", MEASURED)
def test_published_numbers_that_were_tuned_are_in_oracle_columns(name: str, run_small: RunSmall) -> None:
    texts: dict[bool, set[str]] = {True: set(), False: set()}  # by whether the number was tuned on labels
    for table_name, content in published_data()["tables"].items():
        for row in content["rows"]:
            for column in content["columns"]:
                number = published_number(table_name, row["row"], column, row["backbone"])
                if number is not None:
                    texts[number.oracle].add(str(number))
    for table in run_small(name).tables:
        for index, column in enumerate(table.columns):
            cells = {str(row[index]) for row in table.rows if row[index] is not None}
            if "published" in column and not is_oracle_column(column) and index:
                assert not cells & (texts[True] - texts[False]), (table.name, column)
            if "published" in column and is_oracle_column(column):
                assert cells <= texts[True]


def test_what_a_pack_lacks_is_reported(small: FeaturePack) -> None:
    without_aux = replace(small, name="bare", aux=None)
    without_labels = replace(small, name="blind", labels=None)
    context = ExperimentContext((without_aux, without_labels), seeds=(0,), limit=20)
    for name in MEASURED:
        results = run_experiment(name, context)
        assert any("blind: no labels" in sentence for sentence in results.missing), name
    assert any("bare: no auxiliary" in one for one in run_experiment("cache-size", context).missing)


@pytest.mark.parametrize("name", ["affinity", "clusters", "tsne-classes", "tsne-caches", "retrieved-classes"])
def test_what_a_drawn_pack_lacks_is_reported(name: str, pack: FeaturePack, few_images: None) -> None:
    bare = replace(pack, aux=None, labels=None)
    results = run_experiment(name, ExperimentContext(packs=(bare,), seeds=(0,), limit=60))
    assert results.missing or name == "clusters"


def test_every_experiment_can_be_loaded() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert find_experiment(name) is experiment
        assert callable(experiment.load())
    with pytest.raises(UnknownNameError, match="did you mean 'ratio'"):
        find_experiment("ratios")


def test_the_command_lists_runs_and_writes(
    small: FeaturePack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("paper") == 0
    listed = capsys.readouterr().out
    assert len(EXPERIMENTS) == 18
    assert all(name in listed for name in EXPERIMENTS)
    small.write(tmp_path / "pack")
    out, file = tmp_path / "out", tmp_path / "all.json"
    words = (str(tmp_path / "pack"), "--seeds", "0", "--limit", "20", "--out", str(out), "--json", str(file))
    assert run("paper", "components", *words) == 0
    assert "+ DSG + CGH" in capsys.readouterr().out
    assert {path.suffix for path in out.iterdir()} >= {".md", ".csv", ".tex"}
    (results,) = json.loads(file.read_text())
    assert results["name"] == "components"
    assert results["settings"]["limit"] == 20


def test_wrong_words_of_the_command_are_refused(
    small: FeaturePack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("paper", "ratios") == 2
    assert "did you mean 'ratio'" in capsys.readouterr().err
    assert run("paper", "ratio", "--seeds", "a") == 2
    assert run("paper", "ratio", "--limit", "0") == 2
    assert run("paper", "ratio", str(tmp_path / "none")) == 2
    small.write(tmp_path / "pack")
    assert run("paper", "ratio", str(tmp_path / "pack"), str(tmp_path / "pack")) == 2
    assert "given twice" in capsys.readouterr().err
