from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Prediction, Sample, Support, Task, ZeroShot
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import InputError

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
        (lambda: Sample("image.jpg"), "array of numbers"),  # type: ignore[arg-type]
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


def test_float16_features_are_taken() -> None:
    state = ZeroShot().init(Task(NAMES, TEXT.astype(np.float16)))
    assert ZeroShot().step(state, Sample(TEXT.astype(np.float16))).label == 0


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


def test_a_numpy_number_is_a_logit_scale() -> None:
    assert Task(NAMES, TEXT, logit_scale=np.float32(50)).logit_scale == 50.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zero_shot", "scores", "unknown"),
    [([1, 0, 0], [1, 0, 0], 0), ([1, 0, 0], [0, 1, 0], 1), ([1 / 3] * 3, [1, 0, 0], 2 / 3), ([0.5, 0.5], [1, 0], 0.5)],
)
def test_an_image_is_unknown_where_zero_shot_is_unsure_or_contradicted(
    zero_shot: list[float], scores: list[float], unknown: float
) -> None:
    assert Prediction(as_float32(scores), {"zero_shot": as_float32(zero_shot)}).unknown == pytest.approx(unknown)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_unknown_is_a_share(seed: int, classes: int) -> None:
    one, other = as_float32(np.random.default_rng(seed).dirichlet(np.full(classes, 0.1), 2))
    assert 0 <= Prediction(one, {"zero_shot": other}).unknown <= 1
