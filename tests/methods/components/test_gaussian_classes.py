"""Gaussian class models: sums of a cache, left-out samples, and what both models share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Cosmic
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.components.gaussian_classes import (
    CacheClassSums,
    GaussianClassModel,
    LinearLogLikelihood,
    clip_reliability,
    posterior_spread,
)


def filled_cache(rng: np.random.Generator, classes: int = 5, shots: int = 4, dim: int = 8) -> ClassCache:
    cache = ClassCache.empty(classes, shots, dim)
    for sample, label in enumerate(rng.integers(classes - 1, size=14)):  # the last class stays empty
        cache.try_insert(int(label), unit(as_float32(rng.standard_normal(dim))), 0.1, sample)
    return cache


def sums_of(cache: ClassCache) -> CacheClassSums:
    sums = CacheClassSums.empty(len(cache.count), cache.slots.shape[2])
    for label in range(len(cache.count)):
        sums.update(cache, label)
    return sums


def test_the_kept_sums_are_those_of_the_slots(pack: FeaturePack) -> None:
    state = Cosmic().init(pack.task())
    Cosmic().steps(state, [pack.sample(i) for i in range(len(pack))])
    assert state.afv is not None
    assert state.aux_class_sums is not None
    slots = state.afv.memory.cache.slots.sum(axis=1)
    np.testing.assert_allclose(state.aux_class_sums.sums, slots, atol=1e-5)
    np.testing.assert_allclose(state.aux_class_sums.total, slots.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(state.aux_class_sums.square, (slots * slots).sum(axis=1), rtol=1e-4, atol=1e-6)


def test_an_image_in_the_cache_is_left_out() -> None:
    """The likelihood of an image in the cache is that of a cache without it."""
    rng = np.random.default_rng(1)
    without, own = filled_cache(rng), unit(as_float32(rng.standard_normal(8)))
    held = ClassCache(without.slots.copy(), without.entropy.copy(), without.sample.copy(), without.count.copy())
    label = int(np.argmin(held.count[:-1]))
    assert held.try_insert(label, own, 0.05, 99) is not None
    inside = sums_of(held).log_likelihood(own, held, label)
    np.testing.assert_allclose(inside, sums_of(without).log_likelihood(own, without, None), atol=1e-4)
    assert inside[-1] == pytest.approx(0)  # a class without samples is novel


def test_a_class_without_samples_is_a_novel_class() -> None:
    gain, spread = posterior_spread(np.array([0.0, 1.0, 1e9]), 0.25)
    assert gain[0] * 0 == 0
    assert spread[0] == 1
    assert spread[1] < 1
    assert spread[2] == pytest.approx(0.75)  # the mean of a class with many samples is known
    assert gain[2] * 1e9 == pytest.approx(1)


def test_the_spread_keeps_the_precision_of_the_counts() -> None:
    for kind in (np.float32, np.float64):
        assert {array.dtype for array in posterior_spread(np.ones(3, kind), kind(0.5))} == {np.dtype(kind)}
    assert [clip_reliability(value) for value in (-1.0, 0.3, 2.0)] == [0.01, 0.3, 0.9]


@given(st.integers(0, 10**6))
def test_the_linear_function_is_the_log_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = as_float32(rng.dirichlet(np.ones(4), 12))  # [n, K]
    rows = unit(as_float32(rng.standard_normal((12, 8))))
    count, square, sums = labels.sum(axis=0), (labels * labels).sum(axis=0), labels.T @ rows
    model, x, total = GaussianClassModel(8.0, 10.0, True), unit(as_float32(rng.standard_normal(8))), rows.sum(axis=0)
    direct, reliability = model.log_likelihood(x, count, square, sums, total, 12)
    assert 0.01 <= reliability <= 0.9
    g = model._mean(total, 12)
    level, slope, _ = model._coefficients(count, square, g, as_float32(sums @ g), (sums * sums).sum(axis=1))
    out = np.zeros((1, 4), np.float32)
    LinearLogLikelihood(g, level, slope).add(x[None], sums, count, 1.0, out)
    np.testing.assert_allclose(out[0], direct, rtol=1e-3, atol=1e-3)


def test_a_novel_class_bounds_what_a_class_can_lose() -> None:
    model = GaussianClassModel(8.0, 10.0, True)
    values = as_float32([-100.0, 0.0])
    assert model.mix_with_novel_class(values, 0.0, 1.0) is values
    mixed = model.mix_with_novel_class(values, 0.1, 1.0)
    assert mixed[0] == pytest.approx(np.log(0.1) - 4, abs=1e-5)
    assert mixed[1] == pytest.approx(np.log(0.9 + 0.1 * np.exp(-4)), abs=1e-5)
