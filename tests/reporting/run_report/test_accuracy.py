from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.run_report.accuracy import accuracy_section


def test_curves_end_with_the_accuracy_of_the_last_images(runs: list[SavedRun]) -> None:
    section = accuracy_section(runs)
    (table,) = section.tables
    assert [row[0] for row in table.rows] == [run.report.title for run in runs]
    (chart,) = section.charts
    assert "last 30 images" in chart.note  # a quarter of the stream
    for run in runs:
        (series,) = [series for series in chart.series if series.name == run.report.title]
        assert series.y[-1] == pytest.approx(100 * (run.answers == run.labels)[-30:].mean())
        assert not len(series.deviations)


def test_several_seeds_have_a_band(runs: list[SavedRun]) -> None:
    again = [replace(run, report=replace(run.report, seed=1), scores=np.roll(run.scores, 1, axis=1)) for run in runs]
    (chart,) = accuracy_section([*runs, *again]).charts
    assert "Mean of 2 seeds" in chart.note
    assert all(len(series.deviations) == len(series.y) for series in chart.series)


def test_without_labels_there_is_no_curve(unlabelled_runs: list[SavedRun]) -> None:
    section = accuracy_section(unlabelled_runs)
    assert not section.charts
    assert any("without labels" in note for note in section.notes)
