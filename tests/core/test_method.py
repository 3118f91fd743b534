from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosmic_tta import Cosmic, Sample, Task, ZeroShot
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.features.pack import FeaturePack

TEXT = unit(as_float32(np.random.default_rng(0).standard_normal((3, 8))))


NAMES = ("cat", "dog", "owl")


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (Sample(TEXT[:, :7] / np.linalg.norm(TEXT[:, :7], axis=1, keepdims=True)), "7 wide, .* texts are 8 wide"),
        (Sample(TEXT), "auxiliary feature is missing; this stream has them, 8 wide"),
        (Sample(TEXT, as_float32([1, 0])), "auxiliary feature is 2 wide; this stream's are 8 wide"),
        (TEXT, "expected a Sample; given ndarray"),
    ],
)
def test_a_sample_that_does_not_fit_leaves_the_state_as_it_was(sample: Any, said: str) -> None:
    method = Cosmic()
    state = method.init(Task(NAMES, TEXT))
    method.step(state, Sample(TEXT, TEXT[0]))
    before = state_digest(state)
    for call in (method.step, method.peek, lambda s, x: method.steps(s, [Sample(TEXT, TEXT[1]), x])):
        with pytest.raises(InputError, match=said):
            call(state, sample)
        assert state_digest(state) == before


def test_aux_may_not_appear_in_mid_stream() -> None:
    method = ZeroShot()
    state = method.init(Task(NAMES, TEXT))
    method.step(state, Sample(TEXT))
    with pytest.raises(InputError, match="appeared in a stream that began without"):
        method.step(state, Sample(TEXT, TEXT[0]))
    with pytest.raises(InputError, match="sample 1 of the block: an auxiliary feature appeared"):
        method.steps(method.init(Task(NAMES, TEXT)), [Sample(TEXT), Sample(TEXT, TEXT[0])])


def test_why_tells_the_moment_of_the_prediction(pack: FeaturePack) -> None:
    method = Cosmic()
    state = method.init(pack.task())
    early = [method.step(state, pack.sample(i)) for i in range(30)]
    eager = Cosmic()
    twin = eager.init(pack.task())
    told = [eager.step(twin, pack.sample(i)).why for i in range(30)]
    for i in range(30, len(pack)):
        method.step(state, pack.sample(i))
    assert [prediction.why for prediction in early] == told


def test_a_block_may_be_any_iterable() -> None:
    state = ZeroShot().init(Task(NAMES, TEXT))
    assert len(ZeroShot().steps(state, (Sample(TEXT) for _ in range(3)))) == 3
    assert state.seen == 3


def test_a_state_of_other_parameters_is_refused() -> None:
    state = Cosmic(shots=2).init(Task(NAMES, TEXT))
    with pytest.raises(InputError, match=r"made by cosmic with .*'shots': 2, .* not by cosmic with .*'shots': 8"):
        Cosmic().step(state, Sample(TEXT))
    with pytest.raises(InputError, match="made by cosmic with .* not by zero_shot"):
        ZeroShot().step(state, Sample(TEXT))
    assert state.seen == 0


def test_the_first_sample_decides_about_auxiliary_features() -> None:
    method, open_task = Cosmic(), Task(NAMES, TEXT)
    state = method.init(open_task)
    before = state_digest(state)
    method.peek(state, Sample(TEXT, TEXT[0]))
    assert (state_digest(state), state.task.aux_dim, state.aux_undecided) == (before, None, True)
    method.check_block(state, [Sample(TEXT, TEXT[0]), Sample(TEXT, TEXT[1])])
    with pytest.raises(InputError, match="sample 1 of the block: the auxiliary feature is 2 wide; this stream's are 8"):
        method.check_block(state, [Sample(TEXT, TEXT[0]), Sample(TEXT, as_float32([1, 0]))])
    assert (state_digest(state), state.aux_undecided) == (before, True)
    method.step(state, Sample(TEXT, TEXT[0]))
    assert (state.task.aux_dim, state.aux_undecided) == (8, False)
    without = method.init(open_task)
    method.step(without, Sample(TEXT))
    assert (without.task.aux_dim, without.aux_undecided) == (None, False)
