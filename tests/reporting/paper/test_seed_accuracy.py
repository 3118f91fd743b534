from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper.seed_accuracy import (
    SeedAccuracies,
    accuracy,
    compact_table,
    labels_in_order,
    oracle_accuracy,
    stream_description,
    top1_fraction,
)


def test_accuracies_have_a_deviation_if_there_are_several() -> None:
    assert str(SeedAccuracies((70.0, 72.0))) == "71.00 ± 1.41"
    assert str(SeedAccuracies((70.0,))) == "70.00"
    assert str(SeedAccuracies((-0.001,))) == "0.00"
    assert SeedAccuracies((70.0,)).deviation == 0


def test_accuracy_is_that_of_the_report_and_the_oracle_is_no_worse(small: FeaturePack) -> None:
    context = ExperimentContext((small,), seeds=(0, 1))
    run = context.run("cosmic@paper", small, 1)
    found = accuracy(context, "cosmic@paper", small)
    assert found.values[1] == pytest.approx(100 * top1_fraction(run.scores, labels_in_order(run, small)))
    assert oracle_accuracy(context, "cosmic@paper", small).mean >= found.mean


def test_top1_fraction_by_hand() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4]], np.float32)
    assert top1_fraction(scores, np.array([1, 0, 1])) == pytest.approx(2 / 3)


def test_empty_columns_are_left_out() -> None:
    table = compact_table("t", "T", ("a", "b", "c", "d"), [[None, 1, None, ""], [None, 2, None, "x"]])
    assert table.columns == ("a", "b", "d")
    assert table.rows == [(None, 1, ""), (None, 2, "x")]


def test_a_stream_is_described(small: FeaturePack) -> None:
    assert stream_description(ExperimentContext(seeds=(0,)), small) == f"{small.name}: 60 images, shuffled, seed 0"
    context = ExperimentContext(seeds=(0, 2), limit=20)
    assert stream_description(context, small) == f"{small.name}: 20 images, shuffled, seeds 0, 2"
