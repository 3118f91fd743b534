from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.ops import (
    affinity,
    as_float32,
    confident_look,
    confident_views,
    entropy,
    fuse,
    logits_entropy,
    softmax,
    unit,
    unit_mean,
)

RNG = np.random.default_rng(0)


def test_unit_rows_have_length_one_and_zero_stays_zero() -> None:
    rows = as_float32(RNG.standard_normal((5, 7)))
    rows[2] = 0
    norms = np.sqrt((unit(rows) ** 2).sum(axis=1))
    assert norms.round(6).tolist() == [1, 1, 0, 1, 1]


def test_softmax_holds_for_huge_logits() -> None:
    got = softmax(as_float32([[1e30, 0], [-1e30, 0], [3, 3]]))
    np.testing.assert_allclose(got, np.array([[1, 0], [0, 1], [0.5, 0.5]]))


def test_entropy_of_a_uniform_and_of_a_certain_row() -> None:
    got = entropy(as_float32([[0.25] * 4, [1, 0, 0, 0]]), 1e-8)
    np.testing.assert_allclose(got, [np.log(4), 0], atol=1e-6)


def test_the_two_entropies_agree() -> None:
    logits = as_float32(RNG.standard_normal((6, 9)))
    np.testing.assert_allclose(logits_entropy(logits), entropy(softmax(logits), 0), rtol=1e-5)


def test_confident_views_are_the_surest_and_at_least_one() -> None:
    sharpness = np.array([1, 9, 3, 7, 0, 2, 8, 4, 6, 5])
    views = softmax(as_float32(sharpness[:, None] * np.eye(3)[0]))
    entropies = entropy(views, 1e-6)
    assert confident_views(entropies, 0.3).tolist() == [1, 6, 3]
    assert confident_views(entropies, 0.0).tolist() == [1]
    assert confident_views(entropies[:1], 0.1).tolist() == [0]
    look = confident_look(as_float32(sharpness[:, None] * np.eye(3)[0]), 1.0, 0.3)
    np.testing.assert_allclose(look.probabilities, views, atol=1e-6)
    assert (look.kept.tolist(), look.label) == ([1, 6, 3], 0)
    mean = views[[1, 6, 3]].mean(axis=0)
    assert abs(look.entropy + float((mean * np.log(mean)).sum())) < 1e-5


def test_affinity_is_one_at_cosine_one_and_falls() -> None:
    got = affinity(as_float32([1, 0.5, 0]), 5.5)
    np.testing.assert_allclose(got, np.exp([0, -2.75, -5.5]), rtol=1e-6)


def test_as_float32_keeps_what_is_right_already() -> None:
    right = np.zeros((2, 3), np.float32)
    assert as_float32(right) is right
    assert as_float32(right.astype(np.float16)).dtype == np.float32


def test_a_unit_mean_is_the_direction_of_some_rows() -> None:
    rows = as_float32(RNG.standard_normal((6, 9)))
    np.testing.assert_allclose(unit_mean(rows, np.array([4])), unit(rows[4]), atol=1e-6)
    np.testing.assert_allclose(unit_mean(rows, np.array([5, 0, 2])), unit(rows[[5, 0, 2]].mean(axis=0)), atol=1e-6)
    assert not unit_mean(np.stack([rows[0], -rows[0]]), np.array([0, 1])).any()


def test_the_confident_views_make_the_feature() -> None:
    views = unit(as_float32(RNG.standard_normal((20, 9))))
    look = confident_look(as_float32(RNG.standard_normal((20, 5))), 3.0, 0.2, views)
    np.testing.assert_allclose(look.feature, unit_mean(views, look.kept), atol=1e-6)
    one = confident_look(as_float32(RNG.standard_normal((1, 5))), 3.0, 0.2, views[:1] * np.float32(0.5))
    np.testing.assert_allclose(one.feature, views[0], atol=1e-6)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 2.0, 0.25), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
@pytest.mark.parametrize("aux", [True, False])
def test_branches_are_added_up_by_their_weights(weights: tuple[float, float, float], aux: bool) -> None:
    zero_shot, afv = softmax(as_float32(RNG.standard_normal((2, 7))))
    css = as_float32(RNG.random(14)) * (weights[0] > 0)  # nothing at all, where zero-shot does not weigh
    fused = fuse(zero_shot, css, afv if aux else None, weights)
    mean = (css[:7] + css[7:]) / 2
    summed = weights[0] * zero_shot + weights[1] * mean + weights[2] * (afv if aux else 0)
    np.testing.assert_allclose(fused.css, mean)
    np.testing.assert_allclose(fused.scores, summed / summed.sum() if summed.any() else zero_shot, rtol=1e-5)
    assert fused.label == fused.scores.argmax()
