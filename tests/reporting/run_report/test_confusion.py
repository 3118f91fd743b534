from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.run_report.confusion import confusion_section, reliability


def test_reliability_by_hand() -> None:
    probabilities = np.array([0.1] * 20 + [0.95] * 20 + [0.5] * 3, np.float32)
    correct = np.array([True] * 10 + [False] * 10 + [True] * 20 + [False] * 3)
    x, y, texts = reliability(probabilities, correct)
    assert x == pytest.approx([10, 95])
    assert y == pytest.approx([50, 100])
    assert "20 images" in texts[0]


def test_the_matrix_counts_predictions_by_true_class(cosmic_run: SavedRun) -> None:
    matrix, calibration, pairs = confusion_section([cosmic_run]).charts
    assert cosmic_run.labels is not None
    cells = np.array(matrix.cells)
    for k in np.unique(cosmic_run.labels):
        own = cosmic_run.answers[cosmic_run.labels == k]
        np.testing.assert_allclose(cells[k], 100 * np.bincount(own, minlength=20) / len(own))
    assert [series.name for series in pairs.series] == ["zero-shot", cosmic_run.report.title]
    first = str(pairs.series[0].x[0]).split(" → ")
    assert first[0] != first[1]
    assert len(calibration.series) == 2


def test_many_classes_have_no_matrix(cosmic_run: SavedRun) -> None:
    many = replace(cosmic_run, class_names=tuple(map(str, range(40))))
    assert [chart.kind for chart in confusion_section([many]).charts] == ["lines", "bars"]


def test_without_labels_there_is_nothing_to_show(unlabelled_runs: list[SavedRun]) -> None:
    assert not confusion_section(unlabelled_runs).charts
