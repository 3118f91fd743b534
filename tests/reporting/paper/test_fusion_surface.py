from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper.fusion_surface import MAX_WEIGHT, PRESETS
from cosmic_tta.reporting.paper.seed_accuracy import accuracy, labels_in_order, top1_fraction

RunSmall = Callable[..., ResultSet]


def test_the_surface_contains_zero_shot_and_equal_weights(run_small: RunSmall, small: FeaturePack) -> None:
    results = run_small("fusion-surface")
    context = ExperimentContext((small,), seeds=(0, 1))
    (table,) = results.tables
    zero_shot = accuracy(context, "zero_shot", small).mean
    for preset, row in zip(PRESETS, table.rows, strict=False):
        found = dict(zip(table.columns, row, strict=True))
        assert found["β = 1, 0, 0 (zero-shot)"] == pytest.approx(zero_shot)
        sums = []
        for seed in (0, 1):
            run = context.run(preset, small, seed)
            fused = run.parts["zero_shot"] + run.parts["css"] + run.parts["afv"]
            sums.append(100 * top1_fraction(fused, labels_in_order(run, small)))
        assert found["no label used"] == pytest.approx(np.mean(sums))
        assert found["oracle best"] >= found["no label used"]  # type: ignore[operator]


def test_every_surface_says_oracle_and_marks_its_maximum(run_small: RunSmall) -> None:
    for chart in run_small("fusion-surface").charts:
        assert "oracle" in chart.title
        equal, best = chart.series
        assert equal.x == equal.y == [4.0]  # weight 1 at a step of 0.25
        assert 0 <= best.x[0] <= MAX_WEIGHT * 4
        assert np.shape(chart.cells) == (41, 41)
