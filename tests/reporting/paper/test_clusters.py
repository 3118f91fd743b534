from __future__ import annotations

import numpy as np

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext, run_experiment
from cosmic_tta.reporting.paper.clusters import ellipse, gaussian_clusters


def test_gaussian_clusters_find_separate_groups() -> None:
    rng = np.random.default_rng(1)
    rows = np.repeat(5 * np.eye(3, 10), 12, axis=0) + 0.1 * rng.standard_normal((36, 10))
    found = gaussian_clusters(rows.astype(np.float32), 3)
    assert [len(set(found[start : start + 12])) for start in (0, 12, 24)] == [1, 1, 1]
    assert len(set(found)) == 3


def test_an_ellipse_is_as_wide_as_its_points() -> None:
    points = np.random.default_rng(0).standard_normal((4000, 2)) * [3, 1] + [5, 0]
    outline = ellipse(points)
    np.testing.assert_allclose(outline.mean(axis=0), [5, 0], atol=0.3)
    np.testing.assert_allclose(np.ptp(outline, axis=0), [12, 4], rtol=0.05)  # two deviations on both sides


def test_few_images_are_not_clustered(small: FeaturePack) -> None:
    results = run_experiment("clusters", ExperimentContext((small,), seeds=(0,), limit=3))
    assert results.missing == [f"{small.name}: too few images to cluster."]
    assert not results.charts
