from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import BayesMeans
from cosmic_tta.core.arrays import Array, as_float32
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.components import class_statistics, gaussian_classes
from cosmic_tta.methods.components.class_statistics import ClassStatistics, add_outer, class_products, top_indices
from cosmic_tta.methods.components.gaussian_classes import LinearLogLikelihood

compiled = pytest.mark.skipif(COMPILED is None, reason="the kernel was not built, or is off")
# Odd widths, and fewer or more classes and samples than the kernel takes at once.
SHAPES = [(1, 1, 1), (6, 16, 2), (7, 17, 3), (13, 33, 16), (5, 1040, 17), (20, 24, 40), (12, 0, 3), (3, 8, 0)]


def draw(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [as_float32(rng.standard_normal(shape)) for shape in shapes]


@pytest.mark.parametrize(("classes", "width", "number"), SHAPES)
def test_absorbed_samples_are_added_to_the_sums_of_their_classes(classes: int, width: int, number: int) -> None:
    sums, labels, rows = draw((classes, width), (number, classes), (number, width))
    expected = sums + labels.T.astype(np.float64) @ rows
    add_outer(sums, labels, rows)
    np.testing.assert_allclose(sums, expected, atol=1e-4)


@pytest.mark.parametrize(("classes", "width", "number"), SHAPES)
def test_class_sums_are_measured_with_a_sample_a_mean_and_themselves(classes: int, width: int, number: int) -> None:
    sums, x, g = draw((classes, width), (width,), (width,))
    exact = sums.astype(np.float64)
    products, along, squares = class_products(sums, x, g)
    np.testing.assert_allclose(products, exact @ x, atol=1e-3)
    np.testing.assert_allclose(along, exact @ g, atol=1e-3)
    np.testing.assert_allclose(squares, (exact * exact).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize(("classes", "width", "number"), SHAPES)
def test_a_likelihood_is_the_same_on_both_paths(
    classes: int, width: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums, rows, g, out = draw((classes, width), (number, width), (width,), (number, classes))
    mass, level, slope = np.abs(draw((classes,), (classes,), (classes,)))
    plain = out.copy()
    LinearLogLikelihood(g, level, slope).add(rows, sums, mass, 0.5, out)
    monkeypatch.setattr(gaussian_classes, "COMPILED", None)
    LinearLogLikelihood(g, level, slope).add(rows, sums, mass, 0.5, plain)
    np.testing.assert_allclose(out, plain, rtol=1e-4, atol=1e-3)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=120), st.integers(0, 9))
def test_the_heaviest_come_first_and_the_first_of_equals(weights: list[float], keep: int) -> None:
    given_weights = as_float32(weights)
    expected = sorted(range(len(weights)), key=lambda slot: -weights[slot])[:keep]
    assert top_indices(given_weights, keep).tolist() == expected


def test_a_tally_becomes_another_and_shares_nothing_with_it(pack: FeaturePack) -> None:
    method = BayesMeans()
    state = method.init(pack.task())
    method.steps(state, [pack.sample(i) for i in range(30)])
    mine, its = ClassStatistics.empty(pack.task()), state.live
    mine.copy_from(its)
    before = deepcopy(mine)
    its.decay(0.5)
    assert mine.total_weight == before.total_weight != its.total_weight
    for one, other, faded in zip(mine.spaces(), before.spaces(), its.spaces(), strict=True):
        assert np.array_equal(one.classes, other.classes)
        assert np.array_equal(one.total, other.total)
        assert np.array_equal(one.classes / 2, faded.classes)


def test_samples_that_wait_count_as_others_do_once_they_settle(pack: FeaturePack) -> None:
    classes, dim, width = 20, 32, 24
    labels, clip, aux = np.abs(draw((40, classes))[0]), *draw((40, dim), (40, width))
    weights = np.ones(40, np.float32)
    late, prompt = ClassStatistics.empty(pack.task()), ClassStatistics.empty(pack.task())
    prompt.add(labels, (clip, aux), weights)
    for at in range(40):
        one = slice(at, at + 1)
        late.add_buffered(labels[one], (clip[one], aux[one]), weights[one])
    assert late.buffered == 8
    assert not np.allclose(late.clip.classes, prompt.clip.classes, atol=1e-3)
    late.flush()
    assert late.buffered == 0
    assert late.total_weight == prompt.total_weight
    np.testing.assert_allclose(late.soft_count, prompt.soft_count, rtol=1e-5)
    for one_space, other in zip(late.spaces(), prompt.spaces(), strict=True):
        np.testing.assert_allclose(one_space.classes, other.classes, atol=1e-4)
        np.testing.assert_allclose(one_space.total, other.total, atol=1e-4)


def test_more_waiting_samples_than_there_can_be_are_refused(pack: FeaturePack) -> None:
    one = ClassStatistics.empty(pack.task())
    one.validate()
    for wrong in (-1, 16):
        one.buffered = wrong
        with pytest.raises(SnapshotError, match="buffered samples"):
            one.validate()


@compiled
def test_both_paths_answer_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = superclass_pack(5, images=400, dim=33, aux_dim=18, views=1, superclasses=4, members=3)
    scores = []
    for _ in range(2):
        method = BayesMeans(items_per_class=4)
        state = method.init(pack.task())
        scores.append([method.step(state, pack.sample(i)).scores for i in range(len(pack))])
        monkeypatch.setattr(class_statistics, "COMPILED", None)
        monkeypatch.setattr(gaussian_classes, "COMPILED", None)
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
    assert (np.argmax(scores[0], axis=1) == np.argmax(scores[1], axis=1)).all()


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


GOOD = {
    "add_outer": ((4, 6), (3, 4), (3, 6)),
    "class_products": ((4, 6), (6,), (6,), (3, 4)),
    "add_log_likelihood": ((4, 6), (3, 6), (3,), (4,), (4,), (4,), (3, 4)),
}
WRITTEN = {"add_outer": 0, "class_products": 3, "add_log_likelihood": 6, "top_indices": 1}


def arguments(name: str) -> list[Any]:
    if name == "top_indices":
        return [np.zeros(20, np.float32), np.zeros(5, np.int64)]
    return [np.zeros(shape, np.float32) for shape in GOOD[name]]


@compiled
@pytest.mark.parametrize("name", [*GOOD, "top_indices"])
def test_the_kernel_refuses_arrays_that_do_not_fit(name: str) -> None:
    function = getattr(COMPILED, name)
    assert function(*arguments(name)) is None
    for place in range(len(arguments(name))):
        good = arguments(name)[place]
        if name != "top_indices":  # where any length will do that is not beyond the other
            for axis in range(good.ndim):
                # The other arrays are measured by the first ones.
                with pytest.raises(ValueError, match="must be .* long in dimension"):
                    function(*put(name, place, np.concatenate([good, good], axis=axis)))
        with pytest.raises(ValueError, match="dimensions"):
            function(*put(name, place, good[None]))
        for bad in (good.astype(np.float64), good.astype(good.dtype.newbyteorder()), good.tolist(), None, 7):
            with pytest.raises(TypeError, match="must be"):
                function(*put(name, place, bad))
        with pytest.raises(TypeError, match="C-contiguous"):
            function(*put(name, place, np.concatenate([good, good], axis=-1)[..., ::2]))
    with pytest.raises(TypeError, match="writable"):
        function(*put(name, WRITTEN[name], frozen(arguments(name)[WRITTEN[name]])))
    with pytest.raises(TypeError):
        function(*arguments(name)[1:])


def put(name: str, place: int, array: Any) -> list[Any]:
    changed = arguments(name)
    changed[place] = array
    return changed


@compiled
def test_no_more_are_the_heaviest_than_there_are() -> None:
    with pytest.raises(ValueError, match="at most 3 long"):
        COMPILED.top_indices(np.zeros(3, np.float32), np.zeros(4, np.int64))
    COMPILED.top_indices(np.full(40, np.nan, np.float32), slots := np.zeros(4, np.int64))
    assert ((slots >= 0) & (slots < 40)).all()
