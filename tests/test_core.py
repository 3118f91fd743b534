from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosmic_tta import Cosmic, Prediction, Sample, Support, Task, TipAdapter, ZeroShot
from cosmic_tta.errors import InputError, ParameterError
from cosmic_tta.ops import as_float32, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.state import state_digest

TEXT = unit(as_float32(np.random.default_rng(0).standard_normal((3, 8))))
NAMES = ("cat", "dog", "owl")


def changed(rows: Any, value: float) -> Any:
    copy = np.array(rows)
    copy.flat[0] = value
    return copy


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Task((), TEXT), "at least one class"),
        (lambda: Task(("cat", "dog", "cat"), TEXT), "more than once: 'cat'"),
        (lambda: Task(("cat", "", "owl"), TEXT), "non-empty strings; given ''"),
        (lambda: Task(("cat", "dog"), TEXT), "3 rows for 2 class names"),
        (lambda: Task(NAMES, TEXT, logit_scale=0), "above 0, at most 1e.06; given 0"),
        (lambda: Task(NAMES, TEXT, aux_dim=0), "whole number, at least 1, or None; given 0"),
        (lambda: Task(NAMES, changed(TEXT, np.nan)), "text has NaN or infinity in row 0"),
        (lambda: Sample(changed(TEXT, np.inf)), "clip has NaN or infinity in row 0"),
        (lambda: Sample(as_float32(TEXT * [[1], [0], [1]])), "clip has a row of zeros in row 1"),
        (lambda: Sample(2 * TEXT), "rows of length 1 .* given 2 in row 0"),
        (lambda: Sample(TEXT[0]), r"shape \[rows, width\]; given \[8\]; one view is written feature\[None\]"),
        (lambda: Sample(TEXT[:0]), r"clip is empty: given the shape \[0, 8\]"),
        (lambda: Sample(TEXT, aux=TEXT), r"aux must have the shape \[width\]; given \[3, 8\]"),
        (lambda: Sample(TEXT, aux=changed(TEXT[0], np.nan)), "aux has NaN or infinity; check"),
        (lambda: Sample("picture.jpg"), "array of numbers"),  # type: ignore[arg-type]
        (lambda: Sample(None), "array of numbers|shape"),  # type: ignore[arg-type]
        (lambda: Task("cat", TEXT), "given the one string 'cat'"),  # type: ignore[arg-type]
        (lambda: Task(NAMES, TEXT, logit_scale=True), "positive number; given True"),
        (lambda: Task(NAMES, TEXT, logit_scale=1e39), "above 0, at most 1e.06; given 1e.39"),
        (lambda: Support(TEXT, np.array([0.7, 1.2, 2.9])), "3 whole numbers as labels; given float64"),
        (lambda: Support(TEXT, ["a", "b", "c"]), "3 whole numbers as labels; given <U1"),  # type: ignore[arg-type]
        (lambda: Support(TEXT, np.array([0, 1])), "support needs 3 whole numbers as labels; given int64"),
    ],
)
def test_bad_input_is_refused_with_what_was_given(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


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


def test_float16_features_are_taken() -> None:
    state = ZeroShot().init(Task(NAMES, TEXT.astype(np.float16)))
    assert ZeroShot().step(state, Sample(TEXT.astype(np.float16))).label == 0


def test_a_support_must_fit_the_task() -> None:
    for wrong in (None, TEXT):
        with pytest.raises(ParameterError, match="needs labelled training features"):
            TipAdapter(support=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="classes are not the task's, or in another order"):
        TipAdapter(support=Support(TEXT, np.arange(3), ("dog", "cat", "owl"))).init(Task(NAMES, TEXT))
    with pytest.raises(InputError, match="labels go from 0 to 5; this task has the classes 0 to 2"):
        TipAdapter(support=Support(TEXT, np.array([0, 1, 5]))).init(Task(NAMES, TEXT))
    with pytest.raises(InputError, match="support's features are 8 wide, the class texts 3 wide"):
        TipAdapter(support=Support(TEXT, np.array([0, 1, 2]))).init(Task(NAMES, np.eye(3, dtype=np.float32)))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"shots": 0}, "cosmic: shots must be from 1 to 1e.06; given 0"),
        ({"shots": 1e9}, "shots must be from 1 to 1e.06"),
        ({"shots": 2.5}, "shots must be a whole number; given 2.5"),
        ({"ratio": 1.5}, "ratio must be from 0 to 1; given 1.5"),
        ({"ratio": float("nan")}, "ratio must be a number; given nan"),
        ({"graph": "dense"}, "graph must be one of threshold, degree, degeneracy; given 'dense'"),
        ({"text_slot": 1}, "text_slot must be true or false; given 1"),
        ({"weights": (1, 1)}, r"weights must be 3 numbers; given \(1, 1\)"),
        ({"weights": (1, 1, -1)}, "weights must be from 0 to"),
    ],
)
def test_a_bad_parameter_is_refused_when_the_method_is_made(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Cosmic(**parameters)


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


def test_why_names_hyper_classes_inliers_and_votes(pack: FeaturePack) -> None:
    method = Cosmic()
    state = method.init(pack.task())
    prediction = [method.step(state, pack.sample(i)) for i in range(len(pack))][-1]
    why = prediction.why
    answer = pack.class_names[prediction.label]
    for space in ("css", "afv"):
        assert answer in why.inliers[space]
        affinities = [chosen.affinity for chosen in why.hyper_classes[space]]
        assert affinities == sorted(affinities, reverse=True)
        weights = [vote.weight for vote in why.votes[space]]
        assert weights
        assert weights == sorted(weights, reverse=True)
        assert all(0 <= vote.sample < len(pack) and vote.label == answer for vote in why.votes[space])
    texts = {member for chosen in why.hyper_classes["css"] for member in chosen.members}
    assert any(member.endswith("(text)") for member in texts)
    assert any(member.endswith("(images)") for member in texts)
    assert all(member in pack.class_names for chosen in why.hyper_classes["afv"] for member in chosen.members)


def test_a_prediction_explains_itself_even_when_there_is_nothing_to_say() -> None:
    scores = as_float32([0.2, 0.8])
    prediction = Prediction(scores, {"zero_shot": scores})
    assert prediction.label == 1
    assert not prediction.why.votes


def test_a_buffer_may_be_used_again_and_what_was_checked_stays_so() -> None:
    buffer = TEXT.copy()
    sample, task = Sample(buffer, buffer[0]), Task(NAMES, buffer)
    buffer[:] = np.nan
    np.testing.assert_array_equal(sample.clip, TEXT)
    np.testing.assert_array_equal(task.text, TEXT)
    for array in (sample.clip, sample.aux, task.text):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0  # type: ignore[index]


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


def test_a_numpy_number_is_a_logit_scale() -> None:
    assert Task(NAMES, TEXT, logit_scale=np.float32(50)).logit_scale == 50.0  # type: ignore[arg-type]
