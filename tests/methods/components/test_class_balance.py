from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import as_float32
from cosmic_tta.methods.components.class_balance import (
    clip01,
    dominance,
    effective_classes,
    inverse_frequency_weights,
    log_share_excess,
    unevenness,
)

EVEN, ONE = as_float32([5, 5, 5, 5]), as_float32([100, 0, 0, 0])


def test_values_are_limited_to_the_unit_interval() -> None:
    assert [clip01(value) for value in (-1, 0.25, 7)] == [0.0, 0.25, 1.0]


def test_even_counts_have_no_excess_and_a_prior_shrinks_it() -> None:
    np.testing.assert_allclose(log_share_excess(EVEN, 1), 0, atol=1e-6)
    assert log_share_excess(ONE, 1)[0] > log_share_excess(ONE, 100)[0] > 0
    assert (log_share_excess(ONE, 1)[1:] < 0).all()


def test_one_class_of_all_dominates() -> None:
    assert dominance(EVEN) == 0
    assert dominance(ONE) == 1
    assert effective_classes(ONE) == pytest.approx(1, abs=1e-3)
    assert effective_classes(EVEN) == pytest.approx(4, abs=1e-3)
    assert effective_classes(0 * EVEN) == 0
    assert unevenness(ONE) == pytest.approx(0.75, abs=1e-3)
    assert unevenness(0 * EVEN) == 0


def test_samples_of_frequent_classes_weigh_less() -> None:
    labels = np.eye(4, dtype=np.float32)
    assert inverse_frequency_weights(ONE, labels, 0).tolist() == [1, 1, 1, 1]
    weights = inverse_frequency_weights(ONE, labels, 1)
    assert weights[0] == pytest.approx(0.25)
    assert weights[1:].tolist() == [1, 1, 1]
