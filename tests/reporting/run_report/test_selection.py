from __future__ import annotations

from dataclasses import replace

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.run_report.selection import colour_of, featured_run, first_run_per_method, group_by_pack


def test_runs_are_grouped_by_pack(runs: list[SavedRun]) -> None:
    other = replace(runs[0], report=replace(runs[0].report, pack="other"))
    assert {pack: len(group) for pack, group in group_by_pack([*runs, other]).items()} == {
        "generated-20": 5,
        "other": 1,
    }


def test_the_first_run_of_each_method_is_shown(runs: list[SavedRun]) -> None:
    again = [replace(run, report=replace(run.report, seed=1)) for run in runs]
    sequential = [replace(run, report=replace(run.report, order="class-sequential")) for run in runs]
    assert first_run_per_method([*runs, *again, *sequential]) == runs


def test_cosmic_is_featured_else_a_method_that_adapts(runs: list[SavedRun]) -> None:
    assert featured_run(runs).report.method == "cosmic"
    assert featured_run(runs[:3]).report.method == "tda"
    assert featured_run(runs[:1]).report.method == "zero_shot"


def test_only_the_first_variant_of_a_method_has_its_colour(runs: list[SavedRun]) -> None:
    variant = replace(runs[3], report=replace(runs[3].report, preset="paper"))
    assert [colour_of(run, [*runs, variant]) for run in (*runs, variant)] == [-1, 2, 3, 0, 1, None]
