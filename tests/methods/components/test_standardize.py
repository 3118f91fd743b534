from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.methods.components.standardize import Standardizer

ROWS = as_float32(np.random.default_rng(0).standard_normal((50, 6)) * [1, 2, 3, 4, 5, 0] + 7)


def stored(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Standardizer:
    space = Standardizer.empty(len(rows), rows.shape[1])
    for slot, row in enumerate(rows):
        space.store(slot, row, 1.0)
    return space


def test_nothing_changes_before_the_first_fit() -> None:
    np.testing.assert_allclose(stored(ROWS).transform(ROWS), unit(ROWS), atol=1e-6)


def test_a_draft_centres_and_scales_every_dimension() -> None:
    space = stored(ROWS)
    np.testing.assert_array_equal(space.kept, ROWS)
    space.fit_draft(len(ROWS), len(ROWS), prior=0)
    np.testing.assert_allclose(space.transform(ROWS), unit(ROWS), atol=1e-6)  # the draft is not in use yet
    varying = ((ROWS - space.draft_centre) * space.draft_scale)[:, :5]
    np.testing.assert_allclose(varying.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(varying.std(axis=0), varying.std(axis=0)[0], rtol=1e-3)
    assert np.isfinite(space.draft_scale).all()  # though one dimension never varies
    drafted = space.transform_draft(ROWS)
    space.use_draft()
    np.testing.assert_array_equal(space.transform(ROWS), drafted)


def test_a_strong_prior_scales_all_dimensions_alike() -> None:
    space = stored(ROWS)
    space.fit_draft(len(ROWS), len(ROWS), prior=1e9)
    np.testing.assert_allclose(space.draft_scale, 1, rtol=1e-3)


def test_a_draft_can_be_dropped_and_a_copy_shares_nothing() -> None:
    space = stored(ROWS)
    other = space.copy()
    space.fit_draft(len(ROWS), len(ROWS), prior=1)
    space.reset_draft()
    np.testing.assert_array_equal(space.draft_centre, space.centre)
    space.store(0, ROWS[1], 2.0)
    np.testing.assert_array_equal(other.kept, ROWS)
    assert not np.array_equal(other.weighted_sum, space.weighted_sum)
