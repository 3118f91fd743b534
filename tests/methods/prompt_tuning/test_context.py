from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Task, make_method
from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.methods.prompt_tuning.tpt import Tpt
from cosmic_tta.training.trainer import TrainingConfig, train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task


def test_more_context_vectors_are_drawn_before_the_words() -> None:
    tower = LinearTower()
    state = Tpt(tokens=6).init(linear_task(tower))
    assert state.context.shape == (6, tower.width)
    np.testing.assert_array_equal(state.context[2:], tower.opening("a photo of a"))
    np.testing.assert_array_equal(Tpt(tokens=2).init(linear_task(tower)).context, tower.opening("of a"))


@pytest.mark.parametrize("method", ["coop", "cocoop"])
def test_a_checkpoint_of_another_tower_is_refused(method: str) -> None:
    tower, other = LinearTower(), LinearTower()
    learned = train_to_end(method, linear_task(tower), few_shots(linear_task(tower)), TrainingConfig(epochs=1))
    other.fingerprint = "another"
    with pytest.raises(InputError, match="another text tower"):
        make_method(method, checkpoint=learned).init(linear_task(other))


def test_a_method_without_its_tower_or_checkpoint_says_how_it_gets_one() -> None:
    task = linear_task(LinearTower())
    for method in ("tpt", "difftpt"):
        with pytest.raises(InputError, match="pip install 'cosmic-tta\\[torch\\]'"):
            make_method(method).init(replace(task, tower=None))
    with pytest.raises(ParameterError, match="cosmic train coop"):
        make_method("coop")
    with pytest.raises(ParameterError, match="trained for coop, not for cocoop"):
        make_method("cocoop", checkpoint=Checkpoint("coop", {}, {}))
    with pytest.raises(InputError, match="the text tower is of 3 classes"):
        Task(("a", "b", "c"), task.text, tower=task.tower)
