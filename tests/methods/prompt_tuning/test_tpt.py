from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import Sample, make_method
from cosmic_tta.core.arrays import Array, logits_entropy, softmax, unit
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.methods.prompt_tuning.tpt import Tpt
from tests.support.linear_tower import LinearTower, linear_task


def test_tpt_makes_confident_views_agree() -> None:
    tower = LinearTower()
    task = linear_task(tower)
    random = np.random.default_rng(3)
    views = unit((task.text[1] + 0.8 * random.standard_normal((64, task.dim))).astype(np.float32))
    method = Tpt(rate=0.05)
    state = method.init(task)

    def entropy_of(texts: Array) -> float:
        logits = np.float32(task.logit_scale) * (views @ state.texts.T)
        kept = np.argsort(logits_entropy(logits), kind="stable")[:6]
        mean = softmax(np.float32(task.logit_scale) * (views[kept] @ texts.T)).mean(axis=0)
        return float(-(mean * np.log(mean)).sum())

    from cosmic_tta.methods.prompt_tuning.context import tune_context

    kept = np.argsort(logits_entropy(np.float32(task.logit_scale) * (views @ state.texts.T)), kind="stable")[:6]
    falls = [
        entropy_of(tune_context(tower, state.context, views[kept], task.logit_scale, 0.02, n)[1]) for n in range(4)
    ]
    assert falls == sorted(falls, reverse=True)
    assert falls[-1] < falls[0]


def test_tpt_passes_the_tower_once_a_step_and_begins_each_image_anew() -> None:
    tower = LinearTower()
    task = linear_task(tower)
    views = unit(np.random.default_rng(4).standard_normal((3, 64, task.dim)).astype(np.float32))
    method = Tpt(rate=0.1)
    state = method.init(task)
    tower.calls = 0
    first, _, again = (method.step(state, Sample(views[place])) for place in (0, 1, 0))
    assert tower.calls == 3  # whatever the number of views
    np.testing.assert_array_equal(first.scores, again.scores)  # the reset is exact
    np.testing.assert_array_equal(state.context, method.init(task).context)
    remapped = Tpt(rate=0.1, carry_over=True)
    moving = remapped.init(task)
    first, _, again = (remapped.step(moving, Sample(views[place])) for place in (0, 1, 0))
    assert not np.array_equal(first.scores, again.scores)
    assert not np.array_equal(moving.context, state.context)


@pytest.mark.torch
def test_on_the_embedded_pair_tpt_does_no_harm_to_a_shifted_stream() -> None:
    pytest.importorskip("torch")
    from cosmic_tta.features.text_towers import attach_tower
    from cosmic_tta.reporting.paper.embedded_packs import embedded_views

    stream = attach_tower(embedded_views(200, 16), device="cpu")
    run = run_evaluation(make_method("tpt"), stream, order="given", calibrate=False)
    assert run.report.metrics["gain"] >= 0
    assert (run.scores != run.parts["zero_shot"]).any()  # and it did something
