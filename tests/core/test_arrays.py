from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import affinity, agreement, as_float32, entropy, logits_entropy, softmax, unit, unit_mean

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


def test_agreement_is_the_geometric_mean_of_two_draws_naming_one_class() -> None:
    zero_shot, scores = as_float32([[0.5, 0.5], [1, 0]]), as_float32([[0.9, 0.1], [0.25, 0.75]])
    np.testing.assert_allclose(agreement(zero_shot, scores), [np.sqrt(0.5 * 0.5), np.sqrt(0.25)], rtol=1e-6)
    assert agreement(zero_shot, scores).dtype == np.float32
