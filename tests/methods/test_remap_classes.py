"""What was learned goes with its class: through any order, through additions, removals and new names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cosmic_tta import METHODS, Method, Sample, State, Task, make_method
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.state_tree import state_arrays, state_digest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.sessions.class_mapping import remap_state, surviving_names
from tests.support.small_session import SPECS

VARIANTS: dict[str, dict[str, Any]] = {
    **{spec: {} for spec in SPECS},
    "cosmic@default text slot": {"text_slot": True},
    "cosmic@default mean": {"centre": "mean", "aux_centre": "ema"},
    "cosmic@default attention aux": {"centre": "ema_all", "aux_centre": "attention"},
    "cosmic@official seldom": {"rebuild": "scheduled", "rebuild_every": 50, "shots": 1, "aux_shots": 1},
    "cosmic@default seldom": {"rebuild": "scheduled", "rebuild_every": 50, "shots": 1, "aux_shots": 1},
    "cosmic@default seldom text": {"rebuild_every": 50, "shots": 1, "aux_shots": 1, "text_slot": True},
    "cosmic@default seldom mean": {"rebuild_every": 50, "shots": 1, "aux_shots": 1, "centre": "mean"},
    "bayes_means@default short": {"window": 2},
    "bayes_means@default slow": {"rows_per_step": 1},
}
LEARNED = (1, 45, 90)  # samples before the change


@pytest.fixture(scope="module")
def stream() -> FeaturePack:
    return superclass_pack(5, images=140, dim=24, aux_dim=16, views=2, superclasses=3, members=3)


def made(variant: str, pack: FeaturePack) -> Method[Any]:
    spec, parameters = variant.split(" ", maxsplit=1)[0], dict(VARIANTS[variant])
    if "support" in METHODS[spec.split("@", maxsplit=1)[0]].needs:
        parameters["support"] = replace(pack.support(), class_names=None)
    return make_method(spec, **parameters)


def remap_classes(method: Method[Any], state: State, task: Task, names: dict[str, str]) -> State:
    return remap_state(method, state, task, names)[1]


def samples_of(pack: FeaturePack) -> list[Sample]:
    return [pack.sample(index) for index in range(len(pack))]


def taught(method: Method[Any], task: Task, samples: list[Sample]) -> Any:
    state = method.init(task)
    method.steps(state, samples)
    return state


def subtask(task: Task, class_map: list[int], names: list[str] | None = None) -> Task:
    names = names or [task.class_names[place] for place in class_map]
    return replace(task, class_names=tuple(names), text=task.text[class_map])


def assert_valid(state: State) -> None:
    """What a loader would check of every array."""

    def validate(part: Any) -> None:
        for value in vars(part).values():
            if hasattr(value, "__dataclass_fields__") and not isinstance(value, Task):
                validate(value)
        if hasattr(part, "validate"):
            part.validate()

    validate(state)
    for name, array in state_arrays(state).items():
        assert array.dtype.kind != "f" or name.endswith("entropy") or np.isfinite(array).all(), name
        if name.endswith(".sample"):
            assert (array < max(state.seen, 1)).all(), name


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_classes_give_the_same_bits(variant: str, learned: int, stream: FeaturePack) -> None:
    method, task, samples = made(variant, stream), stream.task(), samples_of(stream)
    state = taught(method, task, samples[:learned])
    other, again = remap_state(method, state, task, {name: name for name in task.class_names})
    assert_valid(again)
    assert state_digest(again) == state_digest(state)
    for sample in samples[learned:]:
        one, two = method.step(state, sample), other.step(again, sample)
        assert np.array_equal(one.scores, two.scores)
    assert state_digest(again) == state_digest(state)


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("variant", VARIANTS)
def test_another_order_of_the_classes_gives_the_same_answers_in_that_order(
    variant: str, learned: int, stream: FeaturePack
) -> None:
    method, task, samples = made(variant, stream), stream.task(), samples_of(stream)
    order = np.random.default_rng(1).permutation(task.classes)
    other = subtask(task, order.tolist())
    state = taught(method, task, samples[:learned])
    moved, again = remap_state(method, state, other, {name: name for name in task.class_names})
    assert_valid(again)
    far = 0
    for sample in samples[learned : learned + 40]:
        one, two = method.step(state, sample), moved.step(again, sample)
        far += not np.allclose(one.scores[order], two.scores, atol=2e-4)
    assert far <= 2  # a graph's ties may go the other way


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_class_that_is_gone_leaves_nothing_and_a_new_one_begins_empty(
    variant: str, learned: int, stream: FeaturePack
) -> None:
    method, task, samples = made(variant, stream), stream.task(), samples_of(stream)
    state = taught(method, task, samples[:learned])
    before = state_digest(state)
    gone, renamed, new = task.class_names[2], task.class_names[5], "something new"
    class_map = [8, 5, 0, 1, 3, 4, 6]
    names = [task.class_names[place] for place in class_map]
    names[1] = "under a new name"
    fresh = np.random.default_rng(3).standard_normal((2, task.dim)).astype(np.float32)
    fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
    text = np.concatenate([task.text[class_map], fresh[:1]])
    text[1] = fresh[1]
    other = Task((*names, new), text, task.logit_scale, None, task.encoder, task.aux_encoder)
    going = surviving_names(task, other, {renamed: "under a new name"})
    assert gone not in going
    moved, again = remap_state(method, state, other, going)
    assert state_digest(state) == before  # the old one is left as it is
    assert_valid(again)
    assert again.task.class_names == (*names, new)
    assert again.seen == state.seen
    for name, array in state_arrays(again).items():
        if name.rpartition(".")[2] == "count":
            assert array[-1] == 0
            old = state_arrays(state)[name]
            assert array[:-1].tolist() == old[class_map].tolist()
        if name == "live.soft_count":
            assert array[-1] == 0
    for sample in samples[learned:]:
        prediction = moved.step(again, sample)
        assert np.isfinite(prediction.scores).all()
        assert prediction.scores.shape == (8,)
        assert prediction.scores.sum() == pytest.approx(1, abs=1e-4)
        prediction.why.plain()
    assert_valid(again)
    # And back: more classes than before, all of them new but the eight.
    names = [*again.task.class_names, *(f"class {number}" for number in range(12))]
    rows = np.random.default_rng(4).standard_normal((12, task.dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    large = replace(again.task, class_names=tuple(names), text=np.concatenate([again.task.text, rows]))
    moved, again = remap_state(moved, again, large, {name: name for name in names[:8]})
    assert_valid(again)
    for sample in samples:
        assert np.isfinite(moved.step(again, sample).scores).all()
    assert_valid(again)


@pytest.mark.parametrize("variant", ["cosmic@default", "dmn@default", "tda@default"])
def test_no_slot_of_a_removed_class_stays(variant: str, stream: FeaturePack) -> None:
    method, task, samples = made(variant, stream), stream.task(), samples_of(stream)
    state = taught(method, task, samples)
    held = {name: array for name, array in state_arrays(state).items() if name.endswith(".sample")}
    for gone in range(task.classes):
        class_map = [place for place in range(task.classes) if place != gone]
        again = remap_classes(
            method, state, subtask(task, class_map), {task.class_names[p]: task.class_names[p] for p in class_map}
        )
        for name, array in state_arrays(again).items():
            if name.endswith(".sample"):
                assert sorted(array[array >= 0]) == sorted(held[name][class_map][held[name][class_map] >= 0])


def test_a_renamed_class_keeps_what_it_learned(stream: FeaturePack) -> None:
    method, task, samples = make_method("bayes_means"), stream.task(), samples_of(stream)
    state = taught(method, task, samples[:100])
    names = list(task.class_names)
    names[4] = "renamed"
    again = remap_classes(
        method, state, replace(task, class_names=tuple(names)), dict(zip(task.class_names, names, strict=True))
    )
    assert state_digest(again) == state_digest(state)
    assert again.task.class_names[4] == "renamed"


def test_every_removal_down_to_one_class_works(stream: FeaturePack) -> None:
    for variant in VARIANTS:
        method, task, samples = made(variant, stream), stream.task(), samples_of(stream)
        state = taught(method, task, samples[:60])
        for left in range(task.classes - 1, 0, -1):
            names = state.task.class_names[:left]
            smaller = replace(state.task, class_names=names, text=state.task.text[:left])
            method, state = remap_state(method, state, smaller, {name: name for name in names})
            assert_valid(state)
            for sample in samples[left : left + 3]:
                assert method.step(state, sample).scores.shape == (left,)


def test_names_that_cannot_be_are_refused(stream: FeaturePack) -> None:
    method, task = make_method("tda"), stream.task()
    state, names = method.init(task), task.class_names
    for given, said in (
        ({"nobody": names[0]}, "'nobody' is none of the classes"),
        ({names[0]: "nobody"}, "no class of the new task"),
        ({names[0]: names[1], names[1]: names[1]}, "only one can"),
    ):
        with pytest.raises(InputError, match=said):
            remap_classes(method, state, task, given)
    with pytest.raises(InputError, match="cannot rename 'nobody'"):
        surviving_names(task, task, {"nobody": names[0]})
    with pytest.raises(InputError, match="another class, which stays"):
        surviving_names(task, task, {names[0]: names[1]})
    narrow = Task(("one",), np.eye(1, 5, dtype=np.float32))
    with pytest.raises(InputError, match="another width"):
        remap_classes(method, state, narrow, {})
    with pytest.raises(InputError, match="class_map must be"):
        method.remap_classes(state, task, np.array([0]))
    with pytest.raises(InputError, match="cannot both be"):
        method.remap_classes(state, subtask(task, [0, 1]), np.array([0, 0]))
    tip = made("tip_adapter@default", stream)
    with pytest.raises(InputError, match="samples of none of these classes"):
        remap_classes(tip, tip.init(task), replace(subtask(task, [0]), class_names=("new",)), {})
