from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array
from cosmic_tta.methods.components.optim import AdamW, Sgd, cross_entropy, mean_entropy


@pytest.mark.parametrize("loss", [mean_entropy, lambda logits: cross_entropy(logits, np.array([0, 2, 1]))])
def test_a_gradient_is_the_slope_of_its_loss(loss: Callable[[Array], tuple[float, Array]]) -> None:
    random = np.random.default_rng(0)
    logits, step = random.standard_normal((2, 3, 4)).astype(np.float32)
    _, gradient = loss(logits)
    step *= np.float32(1e-2)
    rise = (loss(logits + step)[0] - loss(logits - step)[0]) / 2
    assert rise == pytest.approx(float((gradient * step).sum()), rel=0.02)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["Sgd", "AdamW"])
def test_the_optimisers_step_as_those_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    ours: Any = Sgd() if kind == "Sgd" else AdamW()
    start = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    weights, parameter = {"w": start}, torch.nn.Parameter(torch.from_numpy(start.copy()))
    theirs = (
        torch.optim.SGD([parameter], 0.1, momentum=0.9, weight_decay=5e-4)
        if kind == "Sgd"
        else torch.optim.AdamW([parameter], 0.1)
    )
    for step in range(5):
        gradient = np.random.default_rng(step).standard_normal((3, 4)).astype(np.float32)
        weights = ours.step(weights, {"w": gradient}, 0.1)
        parameter.grad = torch.from_numpy(gradient)
        theirs.step()
    np.testing.assert_allclose(weights["w"], parameter.detach().numpy(), atol=1e-5)
