from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import CoCoop, Sample, make_method
from cosmic_tta.core.arrays import softmax
from cosmic_tta.core.errors import InputError
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.methods.prompt_tuning.cocoop import context_shift
from cosmic_tta.training import TrainingConfig, train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task


def test_each_image_shifts_the_context_by_its_feature() -> None:
    tower = LinearTower()
    task = linear_task(tower)
    checkpoint = train_to_end("cocoop", task, few_shots(task), TrainingConfig(epochs=3, rate=0.1))
    method = make_method("cocoop", checkpoint=checkpoint)
    state = method.init(task)
    row = few_shots(task).features[:1]
    weights = dict(checkpoint.arrays)
    hidden = np.maximum(row[0] @ weights["inner"] + weights["inner_bias"], 0)
    shift = hidden @ weights["outer"] + weights["outer_bias"]
    np.testing.assert_allclose(context_shift(weights, row)[1][0], shift, atol=1e-6)
    texts = tower.texts(weights["context"] + shift)
    expected = softmax(np.float32(task.logit_scale) * (texts @ row[0]))
    np.testing.assert_allclose(method.step(state, Sample(row)).scores, expected, atol=1e-5)


def test_before_training_it_is_the_context_alone() -> None:
    tower = LinearTower()
    task = linear_task(tower)
    checkpoint = train_to_end("cocoop", task, few_shots(task), TrainingConfig(epochs=0))
    assert not context_shift(dict(checkpoint.arrays), few_shots(task).features)[1].any()
    np.testing.assert_array_equal(checkpoint.arrays["context"], tower.opening("a photo of a"))


def test_a_checkpoint_without_its_arrays_is_refused() -> None:
    tower = LinearTower()
    context = {"context": np.zeros((4, tower.width), np.float32)}
    method = CoCoop(checkpoint=Checkpoint("cocoop", context, {"tower": tower.fingerprint}))
    with pytest.raises(InputError, match="holds context, inner, .*; this one holds context"):
        method.init(linear_task(tower))
