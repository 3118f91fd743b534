from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import as_float32
from cosmic_tta.methods.components.class_balance import effective_classes, log_share_excess

EVEN, ONE = as_float32([5, 5, 5, 5]), as_float32([100, 0, 0, 0])


def test_even_counts_have_no_excess_and_a_prior_shrinks_it() -> None:
    np.testing.assert_allclose(log_share_excess(EVEN, 1), 0, atol=1e-6)
    assert log_share_excess(ONE, 1)[0] > log_share_excess(ONE, 100)[0] > 0
    assert (log_share_excess(ONE, 1)[1:] < 0).all()


def test_classes_count_by_the_entropy_of_their_shares() -> None:
    assert effective_classes(ONE) == pytest.approx(1, abs=1e-3)
    assert effective_classes(EVEN) == pytest.approx(4, abs=1e-3)
    assert effective_classes(0 * EVEN) == 0
