from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import as_float32, entropy, softmax, unit, unit_mean
from cosmic_tta.methods.components.view_selection import confident_views, select_confident_views

RNG = np.random.default_rng(0)


def test_confident_views_are_the_surest_and_at_least_one() -> None:
    sharpness = np.array([1, 9, 3, 7, 0, 2, 8, 4, 6, 5])
    views = softmax(as_float32(sharpness[:, None] * np.eye(3)[0]))
    entropies = entropy(views, 1e-6)
    assert confident_views(entropies, 0.3).tolist() == [1, 6, 3]
    assert confident_views(entropies, 0.0).tolist() == [1]
    assert confident_views(entropies[:1], 0.1).tolist() == [0]
    look = select_confident_views(as_float32(sharpness[:, None] * np.eye(3)[0]), 1.0, 0.3)
    np.testing.assert_allclose(look.probabilities, views, atol=1e-6)
    assert (look.kept.tolist(), look.label) == ([1, 6, 3], 0)
    mean = views[[1, 6, 3]].mean(axis=0)
    assert abs(look.entropy + float((mean * np.log(mean)).sum())) < 1e-5


def test_the_confident_views_make_the_feature() -> None:
    views = unit(as_float32(RNG.standard_normal((20, 9))))
    look = select_confident_views(as_float32(RNG.standard_normal((20, 5))), 3.0, 0.2, views)
    np.testing.assert_allclose(look.feature, unit_mean(views, look.kept), atol=1e-6)
    one = select_confident_views(as_float32(RNG.standard_normal((1, 5))), 3.0, 0.2, views[:1] * np.float32(0.5))
    np.testing.assert_allclose(one.feature, views[0], atol=1e-6)
