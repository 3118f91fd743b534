"""A fused step gives the same answers and the same state as the step in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Sample, make_method
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.cosmic.method import Cosmic

compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not in use")


def twins(**parameters: Any) -> tuple[Cosmic, Cosmic]:
    """The same method twice; the second one makes its steps in parts."""
    one, other = make_method("cosmic@official", **parameters), make_method("cosmic@official", **parameters)
    assert isinstance(one, Cosmic)
    assert isinstance(other, Cosmic)
    assert one._supports_fused_step == (COMPILED is not None)
    other.__dict__["_supports_fused_step"] = False
    return one, other


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"shots": 2, "aux_shots": 3, "rebuild_every": 5},  # the caches are full soon, so some samples are not taken
        {"shots": 2, "aux_shots": 2, "rebuild": "always"},
        {"graph": "degeneracy", "order": 1, "ratio": 0.7, "rounding": "ceil"},
        {"graph": "threshold", "threshold": 0.6, "growth": 1e-3},
        {"stored": "plain", "aux_cache": False},
        {"stored": "plain", "aux_label": "clip", "weights": (0.5, 2.0, 0.0)},
        {"shots": 5, "aux_shots": 1},  # one space goes on learning when the other is full
        {"shots": 1, "aux_shots": 5},
    ],
)
def test_a_fused_step_equals_the_step_in_parts(parameters: dict[str, Any]) -> None:
    pack = superclass_pack(seed=9, images=160, superclasses=4, members=4, views=3, dim=40, aux_dim=32)
    method, parts = twins(**parameters)
    mine, other = method.init(pack.task()), parts.init(pack.task())
    for index in range(len(pack)):
        sample = pack.sample(index)
        one, two = method.step(mine, sample), parts.step(other, sample)
        assert one.parts.keys() == two.parts.keys()
        for name, part in one.parts.items():
            np.testing.assert_array_equal(part, two.parts[name], err_msg=f"sample {index}, {name}")
        assert one.why == two.why
        if index % 20 == 0:
            assert state_digest(mine) == state_digest(other)
            np.testing.assert_array_equal(method.peek(mine, sample).scores, parts.peek(other, sample).scores)
            assert state_digest(mine) == state_digest(other)


@pytest.mark.parametrize("views", [1, 3])
def test_the_same_without_auxiliary_features(views: int) -> None:
    pack = superclass_pack(seed=9, images=60, superclasses=4, members=4, views=views, dim=40, aux_dim=32)
    method, parts = twins(shots=3)
    task = replace(pack.task(), aux_dim=None)
    mine, other = method.init(task), parts.init(task)
    for index in range(len(pack)):
        sample = Sample(pack.sample(index).clip)
        one, two = method.step(mine, sample), parts.step(other, sample)
        np.testing.assert_array_equal(one.scores, two.scores)
        assert one.parts.keys() == two.parts.keys()
        assert one.why == two.why
    assert state_digest(mine) == state_digest(other)


def test_an_explanation_stays_as_it_was() -> None:
    pack = superclass_pack(seed=9, images=60, superclasses=4, members=4, views=1, dim=40, aux_dim=32)
    method, twin = twins()
    state, other = method.init(pack.task()), twin.init(pack.task())
    later = [method.step(state, pack.sample(index)) for index in range(len(pack))]
    at_once = [twin.step(other, pack.sample(index)).why for index in range(len(pack))]
    assert [answer.why for answer in later] == at_once


@compiled
def test_arrays_that_replace_those_of_a_state_are_read() -> None:
    pack = superclass_pack(seed=9, images=40, superclasses=4, members=4, views=1, dim=40, aux_dim=32)
    method, _ = twins()
    state, twin = method.init(pack.task()), method.init(pack.task())
    for index in range(len(pack)):
        for space in (state.css, state.afv):
            assert space is not None
            cache = space.memory.cache
            cache.slots, cache.count = cache.slots.copy(), cache.count.copy()
        one, two = method.step(state, pack.sample(index)), method.step(twin, pack.sample(index))
        np.testing.assert_array_equal(one.scores, two.scores)
    assert state_digest(state) == state_digest(twin)


def test_past_the_limit_of_the_gram_cache_steps_stay_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.methods.cosmic.fused_step.MAX_SAMPLES", 40)
    monkeypatch.setattr("cosmic_tta.methods.cosmic.graph_nodes.MAX_SAMPLES", 40)
    pack = superclass_pack(seed=9, images=70, superclasses=4, members=4, views=1, dim=40, aux_dim=32)
    method, parts = twins()
    mine, other = method.init(pack.task()), parts.init(pack.task())
    for index in range(len(pack)):
        sample = pack.sample(index)
        np.testing.assert_array_equal(method.step(mine, sample).scores, parts.step(other, sample).scores)


@compiled
@given(st.integers(0, 2**32))
def test_no_float_value_crashes_the_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    special = [0, 1, -1, 0.5, np.nan, np.inf, -np.inf, 1e38, 1e-40]

    def floats(*shape: int) -> Any:
        return rng.choice(special, shape).astype(np.float32)

    graph = (int(rng.integers(3)), 2.0, 6, 1, 10, 1000, 0.5, True, 2.0, 5.0)
    flags = bool(rng.integers(2)), bool(rng.integers(2))
    config = COMPILED.fused_step_config(float(rng.random()), *flags, 5.5, tuple(floats(3).tolist()), graph, graph)
    count, row_of_slot = np.array([0, 1, 2, 1]), np.arange(4, 12, dtype=np.int32).reshape(4, 2)
    cache = (floats(4, 2, 3), floats(4, 2), np.ones((4, 2), np.int64), count)
    views, outputs = int(rng.integers(1, 4)), floats(8, 4)
    COMPILED.fused_css_step(
        config, cache, (floats(4, 3), floats(4, 3, 3)),
        (floats(4, 3), row_of_slot, floats(13, 13), floats(4), floats(8, 8)), (floats(views, 3), floats(4)),
        (floats(views, 4), floats(4, 2), floats(4, 3), outputs), 7, 12, 100.0, -np.inf,
    )  # fmt: skip
    COMPILED.fused_afv_step(
        config, cache, (floats(4, 3), floats(4, 3), floats(4, 3), floats(1, 3, 16), floats(4, 4)), floats(3),
        (floats(4, 2), outputs), int(rng.integers(4)), float(floats(1)[0]), 7, -np.inf,
    )  # fmt: skip


@compiled
def test_a_refused_step_changes_nothing() -> None:
    cache: Any = (np.ones((4, 2, 3), np.float32), np.ones((4, 2), np.float32))
    cache += (np.ones((4, 2), np.int64), np.ones(4, np.int64))
    before = [array.copy() for array in cache]
    graph = (1, 2.0, 6, 1, 10, 1000, 0.5, True, 2.0, 5.0)
    config = COMPILED.fused_step_config(0.1, True, True, 5.5, (1.0, 1.0, 1.0), graph, graph)
    nodes = tuple(np.ones(shape, np.float32) for shape in [(4, 3), (4, 3), (4, 3), (1, 3, 16), (4, 4)])
    feature, outputs = np.ones(3, np.float32), (np.ones((4, 2), np.float32), np.ones((8, 4), np.float32))
    with pytest.raises(ValueError, match="label must be"):
        COMPILED.fused_afv_step(config, cache, nodes, feature, outputs, 4, 0.5, 7, -1.0)
    for now, then in zip(cache, before, strict=True):
        np.testing.assert_array_equal(now, then)


@compiled
def test_the_kernel_s_configuration_is_made_once_per_class_count() -> None:
    for graph, same in (("degree", True), ("threshold", False)):  # a threshold grows
        method = make_method("cosmic@official", graph=graph)
        assert isinstance(method, Cosmic)
        config = method._fused_step_config
        assert (config.capsule(5, 0) is config.capsule(5, 1)) is same
        assert config.capsule(5, 0) is not config.capsule(6, 0)
