from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.training.trainer import TrainingConfig, make_objective
from tests.support.linear_tower import LinearTower, few_shots, linear_task


@pytest.mark.parametrize("method", ["coop", "cocoop", "tip_adapter_f"])
def test_the_gradients_of_an_objective_are_the_slopes_of_its_loss(method: str) -> None:
    task = linear_task(LinearTower())
    support = few_shots(task)
    objective = make_objective(method, task, support, TrainingConfig())
    random = np.random.default_rng(2)
    weights = {
        name: value + 0.1 * random.standard_normal(value.shape).astype(np.float32)
        for name, value in objective.init_weights(0).items()
    }
    _, gradients, _ = objective.loss(weights, support.features, support.labels)
    for name, gradient in gradients.items():
        step = 1e-2 * random.standard_normal(gradient.shape).astype(np.float32)
        ahead = objective.loss(weights | {name: weights[name] + step}, support.features, support.labels)[0]
        behind = objective.loss(weights | {name: weights[name] - step}, support.features, support.labels)[0]
        assert (ahead - behind) / 2 == pytest.approx(float((gradient * step).sum()), rel=0.05, abs=2e-5), name
