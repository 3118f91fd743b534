from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.run_report.fusion_weights import (
    WEIGHT_GRID,
    accuracy_surface,
    fusion_weights_section,
    used_weights,
)
from tests.support.saved_runs import save_and_read


def test_the_surface_is_the_accuracy_of_the_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.random((50, 4), np.float32) for _ in range(3)]
    labels = rng.integers(4, size=50)
    cells = accuracy_surface(parts, labels)
    row, column = 7, 30
    fused = parts[0] + WEIGHT_GRID[column] * parts[1] + WEIGHT_GRID[row] * parts[2]
    assert cells[row, column] == pytest.approx(100 * (fused.argmax(axis=1) == labels).mean())


def test_weights_in_use_are_estimated_from_the_scores(pack: FeaturePack, tmp_path: Path) -> None:
    (run,) = save_and_read(tmp_path / "run", pack, make_method("cosmic@paper", weights=(1.0, 3.0, 0.5)))
    assert used_weights(run) == pytest.approx((3.0, 0.5), rel=1e-2)
    (chart,) = fusion_weights_section([run]).charts
    assert [series.name.split()[0] for series in chart.series] == ["oracle", run.report.preset]
    assert "3.00 and 0.50" in chart.note


def test_only_runs_with_cosmic_s_branches_have_a_surface_and_it_says_oracle(runs: list[SavedRun]) -> None:
    section = fusion_weights_section(runs)
    assert "oracle" in section.title
    assert all("oracle" in chart.title for chart in section.charts)
    assert [chart.title.partition(":")[0] for chart in section.charts] == ["cosmic"]
    assert section.notes
    others = [run for run in runs if run.report.method != "cosmic"]
    assert not fusion_weights_section(others).charts
