"""The state refuses what no stream can leave behind, keeps exact moments, and goes on under other classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cosmic_tta import BayesMeans, Sample, Task
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.state_tree import state_bytes, state_digest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.bayes_means import method as module
from cosmic_tta.methods.bayes_means.state import BayesMeansState


def taught(method: BayesMeans, pack: FeaturePack, number: int) -> BayesMeansState:
    state = method.init(pack.task())
    method.steps(state, [pack.sample(index % len(pack)) for index in range(number)])
    return state


def without_class(task: Task, gone: int) -> tuple[Task, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    kept = np.array([place for place in range(task.classes) if place != gone])
    names = tuple(task.class_names[place] for place in kept)
    return replace(task, class_names=names, text=task.text[kept]), kept


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("seen", 29, "window of samples contradicts itself"),
        ("sweep_pass", 3, "sweep cannot be under way"),
        ("sweep_pass", -1, "sweep cannot be under way"),
        ("cursor", 31, "sweep cannot be under way"),
        ("cursor", -1, "sweep cannot be under way"),
        ("explained", -0.1, "counts of explained samples"),
        ("explained", 1e9, "counts of explained samples"),
        ("compared", 0.0, "counts of explained samples"),
    ],
)
def test_a_contradiction_is_refused(pack: FeaturePack, name: str, value: Any, said: str) -> None:
    state = taught(BayesMeans(), pack, 30)
    state.validate()
    setattr(state, name, value)
    with pytest.raises(SnapshotError, match=said):
        state.validate()


def test_the_window_holds_the_last_samples_and_its_moments_do_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 50)
    pack = superclass_pack(7, images=500, dim=24, aux_dim=10, views=1, superclasses=2, members=2)
    state = taught(BayesMeans(window=1), pack, 613)
    assert state.window.held == len(state.window.samples) == 50
    assert state.window.slot == 613 % 50
    assert pack.aux is not None
    last = np.arange(563, 613) % 500
    kept = np.concatenate([pack.clip[last, 0], pack.aux[last]], axis=1)
    np.testing.assert_array_equal(state.window.samples[(np.arange(563, 613)) % 50], kept)
    exact = state.window.samples.astype(np.float64)
    np.testing.assert_allclose(state.window.moments, np.stack([exact.sum(axis=0), (exact**2).sum(axis=0)]), atol=1e-6)


def test_the_class_sums_do_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came before, the model that answers counts the window and what came since the last sweep."""
    monkeypatch.setattr(module, "MIN_WINDOW", 50)
    pack = superclass_pack(7, images=500, dim=24, aux_dim=10, views=1, superclasses=2, members=2)
    state = taught(BayesMeans(window=1), pack, 1000)
    model = state.live
    assert 50 <= model.number <= 50 + 3 * 50 / 24 + 2
    assert model.soft_count.sum() == pytest.approx(model.number, rel=1e-5)
    np.testing.assert_allclose(model.sums.sum(axis=0), model.total, atol=1e-4)
    assert (model.square <= model.soft_count + 1e-4).all()


def test_the_size_depends_on_classes_and_widths_alone(pack: FeaturePack) -> None:
    method = BayesMeans(window=40)
    sizes = {state_bytes(taught(method, pack, number)) for number in (0, 30, 250)}
    assert len(sizes) == 1
    few = Task(("a", "b"), np.eye(2, 4, dtype=np.float32))
    assert len(BayesMeans().init(few).window.samples) == 600
    assert len(method.init(pack.task()).window.samples) == 800


def test_a_removed_class_leaves_nothing(pack: FeaturePack) -> None:
    method = BayesMeans()
    state = taught(method, pack, 110)
    before, gone = state_digest(state), int(np.argmax(np.bincount(state.window.label[: state.window.held])))
    task, kept = without_class(state.task, gone)
    _, again = method.remap_classes(state, task, kept)
    again.validate()
    assert state_digest(state) == before
    np.testing.assert_array_equal(again.live.sums, state.live.sums[kept])
    np.testing.assert_array_equal(again.live.soft_count, state.live.soft_count[kept])
    np.testing.assert_array_equal(again.zero_shot_sum, state.zero_shot_sum[kept])
    assert again.recent.sum() == pytest.approx(1)
    # The sweep goes on without the class.
    assert (again.sweep_pass, again.cursor) == (state.sweep_pass, state.cursor) != (0, 0)
    np.testing.assert_array_equal(again.draft.sums, state.draft.sums[kept])
    np.testing.assert_array_equal(again.reference.sums, state.reference.sums[kept])
    # Its samples stay, as samples of the class that is likeliest now, without a confidence.
    rows, where = np.flatnonzero(state.window.label[:110] == gone), np.argsort(kept)
    np.testing.assert_array_equal(again.window.label[rows], again.window.prior[rows].argmax(axis=1))
    assert not again.window.confidence[rows].any()
    others = np.flatnonzero(state.window.label[:110] != gone)
    np.testing.assert_array_equal(kept[again.window.label[others]], state.window.label[others])
    assert len(where) == task.classes
    np.testing.assert_array_equal(again.window.moments, state.window.moments)


def test_a_new_class_begins_empty_and_the_next_sweep_finds_its_samples(pack: FeaturePack) -> None:
    method = BayesMeans(rows_per_step=200)
    task, kept = without_class(pack.task(), 3)
    state = method.init(task)
    assert pack.aux is not None
    samples = [pack.sample(index) for index in range(len(pack))]
    method.steps(state, samples)
    class_map = np.array([*range(3), -1, *range(3, len(kept))])
    _, again = method.remap_classes(state, pack.task(), class_map)
    again.validate()
    assert again.live.soft_count[3] == 0
    assert not again.live.sums[3].any()
    assert (again.window.label != 3).all()
    assert again.zero_shot_sum[3] > 0  # of the samples in the window
    for sample in samples[:5]:
        method.step(again, sample)
    assert again.live.soft_count[3] > 0.5


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 1)])
def test_a_window_of_other_size_keeps_the_newest(before: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 10)
    pack = superclass_pack(7, images=130, dim=8, aux_dim=6, views=1, superclasses=1, members=5)
    rows = unit(as_float32(np.random.default_rng(0).standard_normal((20, 8))))
    large = Task((*pack.class_names, *(f"new {number}" for number in range(20))), np.concatenate([pack.text, rows]))
    large = replace(large, logit_scale=pack.logit_scale, aux_dim=6)
    small = pack.task()
    one, other = (small, large) if before < after else (large, small)
    class_map = np.array([*range(5), *([-1] * 20)]) if before < after else np.arange(5)
    method = BayesMeans(window=2)
    state = method.init(one)
    method.steps(state, [pack.sample(index) for index in range(117)])
    held = state.window.held
    assert held == len(state.window.samples) == 2 * one.classes
    _, again = method.remap_classes(state, other, class_map)
    again.validate()
    room = 2 * other.classes
    assert len(again.window.samples) == room
    assert again.window.held == min(room, held)
    newest = pack.clip[117 - again.window.held : 117, 0]
    np.testing.assert_array_equal(again.window.samples[: again.window.held, :8], newest)
    exact = again.window.samples[: again.window.held].astype(np.float64)
    np.testing.assert_allclose(again.window.moments, np.stack([exact.sum(axis=0), (exact**2).sum(axis=0)]), atol=1e-9)
    for index in range(117, 130):
        assert np.isfinite(method.step(again, pack.sample(index)).scores).all()
        again.validate()
    np.testing.assert_array_equal(again.window.samples[(again.window.slot - 1) % room, :8], pack.clip[129, 0])


def test_another_order_of_the_classes_continues_the_sweep(pack: FeaturePack) -> None:
    method = BayesMeans(rows_per_step=7)
    state = taught(method, pack, 60)
    assert state.cursor > 0
    order = np.random.default_rng(0).permutation(20)
    task = replace(state.task, class_names=tuple(state.task.class_names[k] for k in order), text=state.task.text[order])
    _, again = method.remap_classes(state, task, order)
    again.validate()
    assert (again.sweep_pass, again.cursor, again.window.slot) == (state.sweep_pass, state.cursor, state.window.slot)
    for index in range(60, 120):
        one, two = (method.step(each, pack.sample(index)).scores for each in (state, again))
        np.testing.assert_allclose(one[order], two, atol=2e-4)


def test_another_text_keeps_what_was_learned_and_the_sweep_goes_on(pack: FeaturePack) -> None:
    method = BayesMeans(rows_per_step=7)
    state = taught(method, pack, 60)
    text = state.task.text.copy()
    text[0] = unit(text[0] + text[1])
    _, again = method.remap_classes(state, replace(state.task, text=text), np.arange(20))
    again.validate()
    assert (again.sweep_pass, again.cursor) == (state.sweep_pass, state.cursor) != (0, 0)
    assert (again.window.prior[:60, 0] != state.window.prior[:60, 0]).any()
    np.testing.assert_array_equal(again.live.sums, state.live.sums)
    np.testing.assert_array_equal(again.window.samples[:60], state.window.samples[:60])
    sample = Sample(pack.clip[60], None if pack.aux is None else pack.aux[60])
    assert np.isfinite(method.step(again, sample).scores).all()
