from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array, as_float32
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.components import sample_window as module
from cosmic_tta.methods.components.sample_window import CHANGE, RECENT, SampleWindow

ONE_SPACE = (slice(0, 8),)


def rows(number: int, seed: int = 0, centre: float = 0.0) -> Array:
    return as_float32(np.random.default_rng(seed).standard_normal((number, 8)) + centre)


def window_of(samples: Array, room: int = 600) -> SampleWindow:
    """Return a window to which samples came, each of class `number % 3`, the surer the later."""
    window = SampleWindow.empty(room, samples.shape[1], 3)
    for number, row in enumerate(samples):
        window.add(row, np.zeros(3, np.float32), number % 3, number / len(samples))
    return window


@pytest.mark.parametrize("number", [1, 5, 6, 20])
def test_the_ring_holds_the_last_samples_and_their_exact_moments(number: int) -> None:
    samples = rows(number)
    window = window_of(samples, room=6)
    held = min(number, 6)
    assert (window.held, window.slot) == (held, number % 6)
    newest, _, label, confidence = window.take(window.newest(held))
    np.testing.assert_array_equal(newest, samples[-held:])
    np.testing.assert_array_equal(label, np.arange(number)[-held:] % 3)
    np.testing.assert_array_equal(confidence, as_float32(np.arange(number)[-held:] / number))
    exact = samples[-held:].astype(np.float64)
    np.testing.assert_allclose(window.moments, [exact.sum(axis=0), (exact**2).sum(axis=0)], atol=1e-12)
    window.validate()


@pytest.mark.parametrize(("held", "slot"), [(31, 30), (-1, 30), (29, 30), (30, 29), (30, -1)])
def test_a_contradiction_is_refused(held: int, slot: int) -> None:
    window = window_of(rows(30))
    window.validate()
    window.held, window.slot = held, slot
    with pytest.raises(SnapshotError, match="window of samples contradicts itself"):
        window.validate()


@pytest.mark.parametrize("slot", [-1, 6])
def test_a_slot_outside_a_full_window_is_refused(slot: int) -> None:
    window = window_of(rows(20), room=6)
    window.slot = slot
    with pytest.raises(SnapshotError, match="window of samples contradicts itself"):
        window.validate()


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_class_is_refused(label: int) -> None:
    window = window_of(rows(20))
    window.label[7] = label
    with pytest.raises(SnapshotError, match="labels of no class"):
        window.validate()


def test_the_recent_mean_begins_as_a_mean_and_then_follows() -> None:
    samples = rows(RECENT)
    window = window_of(samples)
    np.testing.assert_allclose(window.recent_mean, samples.mean(axis=0), atol=1e-6)
    before = window.recent_mean.copy()
    window.add(np.full(8, 10, np.float32), np.zeros(3, np.float32), 0, 1.0)
    np.testing.assert_allclose(window.recent_mean, before + (10 - before) / RECENT, rtol=1e-6)


def changes_after(samples: Array, later: Array) -> int | None:
    """Return after how many later samples the window first says that it has changed."""
    window = window_of(samples)
    for number, row in enumerate(later):
        window.add(row, np.zeros(3, np.float32), 0, 1.0)
        if window.has_changed(ONE_SPACE):
            return number + 1
    return None


def test_a_stream_that_stays_the_same_never_changes() -> None:
    assert all(changes_after(rows(400, seed), rows(2000, 100 + seed)) is None for seed in range(5))


@pytest.mark.parametrize("seed", range(5))
def test_a_sudden_change_is_seen_within_the_recent_samples(seed: int) -> None:
    found = changes_after(rows(400, seed), rows(RECENT, 100 + seed, centre=1.0))
    assert found is not None
    assert 2 < found < RECENT


def test_a_slow_drift_is_no_sudden_change() -> None:
    slow = rows(5000) + as_float32(np.linspace(0, 1, 5000))[:, None]
    assert changes_after(slow[:400], slow[400:]) is None


def test_few_samples_are_no_change() -> None:
    window = window_of(rows(RECENT))
    for row in rows(2 * RECENT - 1, centre=5.0):
        window.add(row, np.zeros(3, np.float32), 0, 1.0)
        assert not window.has_changed(ONE_SPACE)
    window.add(rows(1, centre=5.0)[0], np.zeros(3, np.float32), 0, 1.0)
    assert window.has_changed(ONE_SPACE)


def test_the_distance_is_averaged_over_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(np.concatenate([rows(400), rows(30, 1, centre=0.0)]))
    window.recent_mean = as_float32(window.moments[0] / window.held)
    spread = np.sqrt(window.moments[1] / window.held - (window.moments[0] / window.held) ** 2)
    ratio = 1.5 * CHANGE  # in the first four numbers alone
    by_chance = (spread[:4] ** 2).sum() / (2 * RECENT - 1)
    window.recent_mean[0] += np.float32(np.sqrt(ratio * by_chance))
    assert window.has_changed((slice(0, 4),))
    assert not window.has_changed((slice(0, 4), slice(4, 8)))  # half of it is below the limit
    monkeypatch.setattr(module, "CHANGE", 0.7 * CHANGE)
    assert window.has_changed((slice(0, 4), slice(4, 8)))


def test_samples_without_any_spread_do_not_divide_by_zero() -> None:
    window = window_of(np.ones((3 * RECENT, 8), np.float32))
    assert not window.has_changed(ONE_SPACE)


@pytest.mark.parametrize("number", [10, 400, 700])
def test_the_old_ones_are_dropped(number: int) -> None:
    samples = rows(number)
    window = window_of(samples)
    window.keep_recent()
    held = min(number, RECENT)
    assert (window.held, window.slot) == (held, held)
    np.testing.assert_array_equal(window.samples[:held], samples[-held:])
    np.testing.assert_array_equal(window.label[:held], np.arange(number)[-held:] % 3)
    np.testing.assert_allclose(window.moments[0], samples[-held:].astype(np.float64).sum(axis=0), atol=1e-9)
    window.validate()


def test_a_class_is_supported_by_its_surest_samples() -> None:
    samples = rows(9)
    window = window_of(samples, room=9)
    ago, weights = window.supporters(1, samples[4, :5], 2)
    assert ago.tolist() == [1, 4]  # samples 7 and 4 of 9, the surest first
    expected = [7 / 9 * samples[7, :5] @ samples[4, :5], 4 / 9 * samples[4, :5] @ samples[4, :5]]
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
