"""The Gaussian class model: the textbook likelihood, both paths, and the kernel at its boundary."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import Array, as_float32, softmax, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.state_tree import state_arrays
from cosmic_tta.methods.components import gaussian_classes
from cosmic_tta.methods.components.gaussian_classes import (
    ClassModel,
    GaussianParameters,
    LinearModel,
    add_sample,
    linear,
    log_likelihood,
    mix_with_novel_class,
    relabel,
    score,
    spaces,
)

compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not in use")
# Classes, widths of both spaces, samples: odd ones, and fewer or more than the kernel takes at once.
SHAPES = [(1, 1, 0, 1), (6, 16, 0, 2), (7, 17, 5, 3), (13, 33, 20, 16), (5, 512, 528, 17), (20, 24, 24, 40)]


def parameters_of(dim: int) -> GaussianParameters:
    return GaussianParameters(dim, 10.0, 5.0, 20.0)


def draw(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [as_float32(rng.standard_normal(shape)) for shape in shapes]


def filled(classes: int, dim: int, width: int, number: int = 30) -> ClassModel:
    """Make a model of random samples around the means of their classes."""
    rng = np.random.default_rng(classes + dim + width)
    labels = as_float32(rng.dirichlet(np.full(classes, 0.3), number))
    centres = rng.standard_normal((classes, dim + width))
    rows = as_float32(labels @ centres + 0.5 * rng.standard_normal((number, dim + width)))
    model = ClassModel.empty(classes, dim + width)
    exact = rows.astype(np.float64)
    model.fit(np.stack([exact.sum(axis=0), (exact * exact).sum(axis=0)]), number, parameters_of(dim))
    model.add(labels, model.standardize(rows, dim))
    return model


def novel_likelihood(x: Array, sums: Array, count: float, rho: float, sharpness: float) -> float:
    """The textbook answer: log N(x; posterior mean, posterior predictive spread), in `sharpness` dimensions.

    A class mean has the prior N(0, ρ), a sample N(mean, 1 - ρ): after `count` samples that add up to `sums`.
    """
    precision = 1 / rho + count / (1 - rho)
    mean = sums / (1 - rho) / precision
    variance = 1 / precision + 1 - rho
    return float(-0.5 * sharpness * (np.log(variance) + ((x - mean) ** 2).sum() / variance))


def test_the_score_is_the_posterior_predictive_likelihood() -> None:
    rng = np.random.default_rng(0)
    parameters = GaussianParameters(8, 10.0, 1e9, 20.0)  # with so large a prior there is no running mean
    model = ClassModel.empty(3, 8)
    rows = unit(as_float32(rng.standard_normal((12, 8))))
    labels = as_float32(rng.dirichlet(np.ones(3), 12))
    labels[:, 2] = 0  # a class without any sample: novel
    labels /= labels.sum(axis=1, keepdims=True)
    model.add(labels, rows)
    row = unit(as_float32(rng.standard_normal(8)))
    found, reliability = score(model, row, parameters)
    np.testing.assert_allclose(model.standardize(row[None], 8)[0], row, atol=1e-6)  # there was no fit
    for k in range(3):
        # The formula keeps |x|² = 1 and drops no constant, so the two agree outright.
        rho = float(reliability[0])
        expected = novel_likelihood(row, model.sums[k], float(model.soft_count[k]), rho, 10.0)
        assert found[0, k] == pytest.approx(expected, abs=1e-4)
    assert found[0, 2] == pytest.approx(-5)  # as wide as all classes together


def test_a_sample_is_added_with_its_soft_label() -> None:
    rng = np.random.default_rng(2)
    parameters = parameters_of(5)
    one = ClassModel.empty(3, 8)
    rows = as_float32(rng.standard_normal((20, 8)))
    exact = rows.astype(np.float64)
    one.fit(np.stack([exact.sum(axis=0), (exact * exact).sum(axis=0)]), 20, parameters)
    other, logits = deepcopy(one), as_float32(rng.standard_normal((20, 3)))
    for row, scores in zip(rows, logits, strict=True):
        add_sample(one, row, scores, parameters)
    other.add(softmax(logits), other.standardize(rows, 5))
    assert one.number == other.number == 20
    for name, array in state_arrays(one).items():
        np.testing.assert_allclose(array, state_arrays(other)[name], atol=1e-5, err_msg=name)


def test_the_reliability_is_the_mean_cosine_of_two_samples_of_a_class_raised_for_wrong_labels() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 500)
    rows = unit(as_float32(2 * np.eye(4, 16)[labels] + 0.7 * rng.standard_normal((2000, 16))))
    model = ClassModel.empty(4, 16)
    model.add(as_float32(np.eye(4)[labels]), rows)
    function = linear(model, GaussianParameters(16, 10.0, 0.0, 20.0))
    centred = unit(rows - rows.mean(axis=0))
    cosines = [centred[labels == k] @ centred[labels == k].T for k in range(4)]
    pairs = [cosine[~np.eye(500, dtype=bool)].mean() for cosine in cosines]
    assert function.reliability[0] == pytest.approx(min(1.3 * np.mean(pairs), 0.9), abs=0.02)
    empty = ClassModel.empty(4, 16)
    assert linear(empty, parameters_of(16)).reliability[0] == pytest.approx(1.3 * 0.3)  # the prior alone


@pytest.mark.parametrize(("classes", "dim", "width", "number"), SHAPES)
def test_the_linear_function_is_the_likelihood(classes: int, dim: int, width: int, number: int) -> None:
    model, parameters = filled(classes, dim, width), parameters_of(dim)
    function = linear(model, parameters)
    (rows,) = draw((number, dim + width))
    x = model.standardize(rows, dim)
    found = log_likelihood(model, function, x, dim)
    assert found.shape == (1 if width == 0 else 2, number, classes)
    for at, space in enumerate(spaces(dim, dim + width)):
        g = function.mean[space].astype(np.float64)
        shrink = np.sqrt(max(1 - float(g @ g), 1e-6))
        sums = (model.sums[:, space] - np.outer(model.soft_count, g)) / shrink
        for row in range(number):
            centred = unit(x[row, space] - function.mean[space])
            if not centred.any():
                continue
            for k in range(classes):
                count, rho = float(model.soft_count[k]), float(function.reliability[at])
                expected = novel_likelihood(centred, as_float32(sums[k]), count, rho, 10.0)
                assert found[at, row, k] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(("classes", "dim", "width", "number"), SHAPES)
def test_a_standardised_row_has_unit_length_in_each_space(classes: int, dim: int, width: int, number: int) -> None:
    model = filled(classes, dim, width)
    (rows,) = draw((number, dim + width))
    x = model.standardize(rows, dim)
    for space in spaces(dim, dim + width):
        moved = (rows[:, space] - model.centre[space]) * model.scale[space]
        np.testing.assert_allclose(np.linalg.norm(x[:, space], axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(x[:, space], moved / np.linalg.norm(moved, axis=1, keepdims=True), atol=1e-5)


def test_the_fit_is_that_of_the_samples() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((200, 6)) * [1, 2, 3, 1e-9, 1, 5] + 4
    model = ClassModel.empty(2, 6)
    model.fit(np.stack([rows.sum(axis=0), (rows * rows).sum(axis=0)]), 200, GaussianParameters(4, 10.0, 5.0, 0.0))
    np.testing.assert_allclose(model.centre, rows.mean(axis=0), rtol=1e-5)
    for space in (slice(0, 4), slice(4, 6)):
        variance = rows[:, space].var(axis=0)
        expected = np.minimum(np.sqrt(variance.mean() / variance), 1000)
        np.testing.assert_allclose(model.scale[space], expected, rtol=1e-3)
    shrunk = deepcopy(model)
    shrunk.fit(np.stack([rows.sum(axis=0), (rows * rows).sum(axis=0)]), 200, GaussianParameters(4, 10.0, 5.0, 1e9))
    np.testing.assert_allclose(shrunk.scale, 1, rtol=1e-4)


@pytest.mark.parametrize(("classes", "dim", "width", "number"), SHAPES)
def test_added_samples_are_in_the_sums(classes: int, dim: int, width: int, number: int) -> None:
    model = filled(classes, dim, width)
    before = deepcopy(model)
    labels, rows = draw((number, classes), (number, dim + width))
    model.add(labels, rows)
    np.testing.assert_allclose(model.sums, before.sums + labels.T.astype(np.float64) @ rows, atol=1e-4)
    np.testing.assert_allclose(model.total, before.total + rows.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(model.soft_count, before.soft_count + labels.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(model.square, before.square + (labels * labels).sum(axis=0), atol=1e-4)
    assert model.number == before.number + number
    centre = model.centre.copy()
    model.clear()
    assert not any(sums.any() for sums in (model.sums, model.total, model.soft_count, model.square))
    assert model.number == 0
    np.testing.assert_array_equal(model.centre, centre)


def test_other_classes_take_their_rows() -> None:
    model = filled(4, 6, 5)
    class_map = np.array([2, -1, 0])
    again = model.remapped(class_map)
    np.testing.assert_array_equal(again.sums[[0, 2]], model.sums[[2, 0]])
    assert not again.sums[1].any()
    assert again.soft_count.tolist() == [model.soft_count[2], 0, model.soft_count[0]]
    assert again.number == model.number
    np.testing.assert_array_equal(again.total, model.total)
    function = linear(model, parameters_of(6))
    moved = function.remapped(class_map)
    np.testing.assert_array_equal(moved.level[:, [0, 2]], function.level[:, [2, 0]])
    np.testing.assert_array_equal(moved.slope[:, 1], [0, 0])
    for one, other in ((model, again), (function, moved)):
        arrays = state_arrays(one)
        assert not any(np.shares_memory(array, arrays[name]) for name, array in state_arrays(other).items())


@pytest.mark.parametrize(("classes", "dim", "width", "number"), SHAPES)
def test_a_label_is_the_prior_times_the_likelihood(classes: int, dim: int, width: int, number: int) -> None:
    reference, parameters = filled(classes, dim, width), parameters_of(dim)
    draft = deepcopy(reference)
    draft.clear()
    rows, logits = draw((number, dim + width), (number, classes))
    given_logits = logits.copy()
    function = linear(reference, parameters)
    labels = relabel(rows, logits, (reference, function), 0.5, 0.2, draft, parameters)
    np.testing.assert_array_equal(logits, given_logits)
    found = 0.5 * log_likelihood(reference, function, draft.standardize(rows, dim), dim).sum(axis=0)
    count = 1 if width == 0 else 2
    mixed = np.log(0.8 * np.exp(found.astype(np.float64)) + 0.2 * np.exp(-0.5 * 10 * 0.5 * count))
    np.testing.assert_allclose(labels, softmax(as_float32(logits + mixed)), atol=1e-4)
    assert draft.number == number
    np.testing.assert_allclose(draft.soft_count, labels.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(draft.sums, labels.T @ draft.standardize(rows, dim), atol=1e-4)
    draft.clear()
    alone = relabel(rows, logits, None, 0.0, 0.2, draft, parameters)
    np.testing.assert_allclose(alone, softmax(logits), atol=1e-6)


@compiled
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("novel", [0.0, 0.25])
@pytest.mark.parametrize(("classes", "dim", "width", "number"), SHAPES)
def test_both_paths_agree(
    classes: int, dim: int, width: int, number: int, novel: float, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, parameters = filled(classes, dim, width), parameters_of(dim)
    reference = (model, linear(model, parameters)) if asked else None
    rows, logits = draw((number, dim + width), (number, classes))
    found: list[list[Any]] = []
    for _ in range(2):
        draft = deepcopy(model)
        labels = relabel(rows, logits, reference, 0.5, novel, draft, parameters)
        sums = [draft.sums, draft.total, draft.soft_count, draft.square]
        found.append([*score(model, rows[0], parameters), labels, *sums])
        assert draft.number == model.number + number
        monkeypatch.setattr(gaussian_classes, "COMPILED", None)
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_novel_class_bounds_what_a_class_can_lose() -> None:
    values = as_float32([-100.0, 0.0])
    assert mix_with_novel_class(values, 0.0, 1.0, 8.0) is values
    mixed = mix_with_novel_class(values, 0.1, 1.0, 8.0)
    assert mixed.dtype == np.float32
    assert mixed[0] == pytest.approx(np.log(0.1) - 4, abs=1e-5)
    assert mixed[1] == pytest.approx(np.log(0.9 + 0.1 * np.exp(-4)), abs=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_extreme_samples_give_finite_scores(seed: int, classes: int, dim: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    parameters = GaussianParameters(dim, 10.0, float(rng.choice([0, 5])), float(rng.choice([0, 20])))
    model = ClassModel.empty(classes, dim + width)
    rows = as_float32(rng.choice([0, 1, -1, 1e-20], (9, dim + width)))
    exact = rows.astype(np.float64)
    model.fit(np.stack([exact.sum(axis=0), (exact * exact).sum(axis=0)]), 9, parameters)
    assert np.isfinite(model.scale).all()
    for row in rows:
        found, _ = score(model, row, parameters)
        assert np.isfinite(found).all()
        add_sample(model, row, as_float32(np.log(rng.dirichlet(np.ones(classes)))), parameters)
    reference, draft = (model, linear(model, parameters)), deepcopy(model)
    labels = relabel(rows, np.zeros((9, classes), np.float32), reference, 1.0, 0.1, draft, parameters)
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)


def relabel_arguments() -> list[Any]:
    ones = [np.ones(shape, np.float32) for shape in ((7, 5), (7, 4), (5,), (2, 4), (2, 4), (4, 5), (4,))]
    return [*ones, 0.5, 0.1, 10.0, 3, *(np.ones(shape, np.float32) for shape in ((5,), (5,), (4, 5), (5,), (4,), (4,)))]


@compiled
def test_the_reference_is_given_as_a_whole_or_not_at_all() -> None:
    assert COMPILED.gaussian_relabel(*relabel_arguments()) is None
    arguments = relabel_arguments()
    arguments[2:7] = [None] * 5
    assert COMPILED.gaussian_relabel(*arguments) is None
    for given_parts in range(1, 31):  # every subset but none and all
        arguments = relabel_arguments()
        for part in range(5):
            if not given_parts & 1 << part:
                arguments[2 + part] = None
        before = [value.copy() for value in arguments if isinstance(value, np.ndarray)]
        with pytest.raises(ValueError, match="must be given together"):
            COMPILED.gaussian_relabel(*arguments)
        now = [value for value in arguments if isinstance(value, np.ndarray)]
        assert all(np.array_equal(one, other) for one, other in zip(before, now, strict=True))


@compiled
def test_no_other_array_may_be_none() -> None:
    for place in (0, 1, *range(11, 17)):
        arguments = relabel_arguments()
        arguments[place] = None
        with pytest.raises(TypeError, match="must be"):
            COMPILED.gaussian_relabel(*arguments)


@compiled
def test_no_samples_change_nothing() -> None:
    arguments = relabel_arguments()
    arguments[0], arguments[1] = np.ones((0, 5), np.float32), np.ones((0, 4), np.float32)
    before = [value.copy() for value in arguments[11:]]
    COMPILED.gaussian_relabel(*arguments)
    assert all(np.array_equal(one, other) for one, other in zip(before, arguments[11:], strict=True))


def test_the_function_of_no_samples_is_zero() -> None:
    model, function = ClassModel.empty(3, 8), LinearModel.empty(3, 8, 2)
    assert not log_likelihood(model, function, np.ones((4, 8), np.float32), 5).any()
