from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.reporting.projection import centre_rows, tsne


def test_similar_rows_are_near_in_the_plane() -> None:
    rng = np.random.default_rng(0)
    rows = (np.repeat(np.eye(4, 12), 15, axis=0) + 0.05 * rng.standard_normal((60, 12))).astype(np.float32)
    points = tsne(rows)
    assert points.shape == (60, 2)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    same = np.equal.outer(np.arange(60) // 15, np.arange(60) // 15)
    assert distance[same].max() < distance[~same].min()
    assert np.array_equal(points, tsne(rows))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_few_rows_are_projected_too(count: int) -> None:
    assert tsne(np.eye(8, dtype=np.float32)[:count]).shape == (count, 2)


def test_centred_rows_have_unit_length_and_no_common_part() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    centred = centre_rows(rows)
    np.testing.assert_allclose(np.linalg.norm(centred, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(centre_rows(rows + 7), centred, atol=1e-5)
    assert np.array_equal(centre_rows(rows[:2]), rows[:2])
