from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import as_float32
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.metrics import (
    compute_metrics,
    expected_calibration_error,
    paired_interval,
    rejection_auroc,
    running_accuracy,
    summarize,
)


def test_metrics_by_hand() -> None:
    scores = as_float32([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.4, 0.4, 0.2]])
    labels = np.array([0, 1, 2, 1])
    zero_shot = np.eye(3, dtype=np.float32)[[0, 0, 0, 1]]
    got = compute_metrics(scores, zero_shot, labels)
    assert got["acc1"] == 0.5  # a tie goes to the first class, as argmax has it
    assert got["acc5"] == 1.0
    assert got["macro_acc"] == pytest.approx((1 + 0 + 1) / 3)
    assert got["zero_shot_acc1"] == 0.5
    assert got["gain"] == 0.0
    assert got["nll"] == pytest.approx(-np.log([0.7, 0.3, 0.6, 0.4]).mean(), rel=1e-5)
    squares = [0.09 + 0.04 + 0.01, 0.25 + 0.49 + 0.04, 0.01 + 0.09 + 0.16, 0.16 + 0.36 + 0.04]
    assert got["brier"] == pytest.approx(np.mean(squares), rel=1e-5)


def test_calibration_error_of_a_calibrated_and_of_an_overconfident_forecast() -> None:
    correct = np.array([True, True, True, False])
    assert expected_calibration_error(np.full(4, 0.75, np.float32), correct) == pytest.approx(0)
    assert expected_calibration_error(np.ones(4, np.float32), correct) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [((9, 8, 3, 2), 1.0), ((2, 3, 8, 9), 0.0), ((5, 5, 5, 5), 0.5), ((9, 2, 5, 1), 0.75)],
)
def test_auroc_by_hand(confidence: tuple[float, ...], expected: float) -> None:
    assert rejection_auroc(np.array(confidence), np.array([True, True, False, False])) == expected


def test_auroc_is_the_share_of_ordered_pairs() -> None:
    rng = np.random.default_rng(0)
    confidence, known = rng.integers(12, size=300) / 12, rng.random(300) < 0.7
    first, second = confidence[known][:, None], confidence[~known][None]
    pairs = ((first > second) + 0.5 * (first == second)).mean()
    assert rejection_auroc(confidence, known) == pytest.approx(pairs, abs=1e-12)
    assert rejection_auroc(confidence, np.ones(300, bool)) is None
    assert rejection_auroc(confidence, np.zeros(300, bool)) is None


def test_running_accuracy_of_few_and_of_many() -> None:
    assert running_accuracy(np.zeros(0, bool)).tolist() == []
    assert running_accuracy(np.array([True])).tolist() == [1.0]
    correct = np.random.default_rng(0).random(500) < 0.5
    assert running_accuracy(correct, 100)[-1] == correct[-100:].mean()
    assert running_accuracy(correct, 100)[49] == correct[:50].mean()


def test_the_worst_tenth_needs_twenty_runs() -> None:
    values = np.random.default_rng(0).permutation(np.arange(25) / 100)
    found = summarize(values.tolist())
    assert found.mean == pytest.approx(0.12)
    assert found.std == pytest.approx(values.std(ddof=1))
    assert found.worst_tenth == pytest.approx(0.01)  # of 0.00, 0.01 and 0.02
    assert summarize(values[:19].tolist()).worst_tenth is None
    assert summarize([0.5]) == (0.5, None, None)
    with pytest.raises(InputError, match="at least one run"):
        summarize([])


def test_an_interval_of_one_run_equals_the_plain_bootstrap() -> None:
    differences = np.random.default_rng(3).choice([-1.0, 0, 1], 800, p=[0.05, 0.7, 0.25])
    got = paired_interval([differences], [np.random.default_rng(4).permutation(800)])
    rng = np.random.default_rng(5)
    drawn = differences[rng.integers(800, size=(4000, 800))].mean(axis=1)
    assert got.mean == pytest.approx(differences.mean())
    np.testing.assert_allclose(got[1:], np.quantile(drawn, [0.025, 0.975]), atol=0.004)
    assert got.excludes_zero
    assert got == paired_interval([differences], [np.arange(800)])  # seeded, and independent of the order
    assert got != paired_interval([differences], [np.arange(800)], seed=1)
    wide = paired_interval([differences], [np.arange(800)], level=0.999)
    assert wide.low < got.low < got.high < wide.high


def test_intervals_cover_the_true_mean_as_often_as_their_level_says() -> None:
    rng, inside = np.random.default_rng(6), 0
    for _ in range(300):
        differences = rng.choice([-1.0, 0, 1], 200, p=[0.1, 0.6, 0.3])
        interval = paired_interval([differences], [np.arange(200)], draws=400)
        inside += interval.low <= 0.2 <= interval.high
    assert 0.91 <= inside / 300 <= 0.98


def test_repeating_a_run_does_not_narrow_the_interval_and_differing_runs_widen_it() -> None:
    rng = np.random.default_rng(7)
    differences, images = rng.choice([-1.0, 0, 1], 300, p=[0.1, 0.6, 0.3]), np.arange(300)
    one = paired_interval([differences], [images])
    same = paired_interval([differences] * 8, [images] * 8)
    assert same.high - same.low == pytest.approx(one.high - one.low, rel=0.1)
    orders = [rng.permutation(300) for _ in range(8)]
    reordered = paired_interval([differences[order] for order in orders], [images[order] for order in orders])
    np.testing.assert_allclose(reordered, same)
    varied = paired_interval([differences + shift for shift in np.linspace(-0.5, 0.5, 8)], [images] * 8)
    assert varied.high - varied.low > 2 * (one.high - one.low)


def test_repeated_images_are_drawn_as_one_and_runs_have_equal_weight() -> None:
    rng = np.random.default_rng(8)
    differences = rng.choice([-1.0, 0, 1], 200, p=[0.1, 0.6, 0.3])
    once = paired_interval([differences], [np.arange(200)])
    often = paired_interval([np.repeat(differences, 5)], [np.repeat(np.arange(200), 5)])
    np.testing.assert_allclose(often, once)
    uneven = paired_interval([np.ones(10), np.zeros(1000)], [np.arange(10), np.arange(1000)])
    assert uneven.mean == 0.5
    with pytest.raises(InputError, match="at least one run"):
        paired_interval([], [])
    with pytest.raises(InputError, match="each run at least one step"):
        paired_interval([np.zeros(0)], [np.zeros(0, np.int64)])
