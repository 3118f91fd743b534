"""The method against a plain rendering of its rule, on small random streams."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import BayesMeans, Sample, Task
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.methods.bayes_means import method as module
from cosmic_tta.methods.bayes_means.state import BayesMeansState
from cosmic_tta.methods.components import sample_window
from tests.support import naive_bayes_means
from tests.support.naive_bayes_means import NaiveBayesMeans, Settings

SEEDS = range(24)


def random_stream(seed: int) -> tuple[Task, list[Sample], BayesMeans, int]:
    """Return a task, samples of it, a method, and the smallest window."""
    rng = np.random.default_rng(seed)
    classes, dim, number = 1 + seed % 6, int(rng.integers(3, 9)), int(rng.integers(90, 130))
    width = int(rng.integers(2, 7)) if seed % 2 else None
    labels = rng.choice(classes, size=number, p=rng.dirichlet(np.ones(classes)))
    if seed % 3 == 0:
        labels = np.sort(labels)  # a correlated stream
    text = unit(as_float32(rng.standard_normal((classes, dim))))
    clip = unit(as_float32(text[labels] + 0.6 * rng.standard_normal((number, dim))))
    samples = [Sample(row[None]) for row in clip]
    if width is not None:
        centres = rng.standard_normal((classes, width))
        aux = unit(as_float32(centres[labels] + 0.5 * rng.standard_normal((number, width))))
        samples = [Sample(row[None], other) for row, other in zip(clip, aux, strict=True)]
    scale = float(rng.choice([4.0, 12.0, 40.0]))
    task = Task(tuple(f"class {k}" for k in range(classes)), text, scale, width)
    method = BayesMeans(
        sharpness=float(rng.choice([3.0, 10.0])), window=int(rng.integers(1, 5)),
        rows_per_step=int(rng.choice([3, 7, 16, 40])), variance_prior=float(rng.choice([0.0, 5.0, 20.0])),
        mean_prior=float(rng.choice([0.0, 5.0])), temporal=bool(seed % 5),
    )  # fmt: skip
    return task, samples, method, int(rng.integers(25, 50))


def compare(task: Task, samples: list[Sample], method: BayesMeans) -> tuple[BayesMeansState, NaiveBayesMeans]:
    """Step through samples with the method and with its plain rendering; return both at the end."""
    state = method.init(task)
    room = max(method.window * task.classes, module.MIN_WINDOW)
    settings = Settings(
        room, method.sharpness, method.rows_per_step, method.variance_prior, method.mean_prior, method.temporal
    )
    widths = (task.dim,) if task.aux_dim is None else (task.dim, task.aux_dim)
    naive = NaiveBayesMeans(settings, task.text.astype(np.float64), task.logit_scale, widths)
    for number, sample in enumerate(samples):
        spaces = [sample.clip[0].astype(np.float64)]
        if sample.aux is not None:
            spaces.append(sample.aux.astype(np.float64))
        expected = naive.step(spaces)
        scores = method.step(state, sample).scores
        np.testing.assert_allclose(scores, expected, atol=5e-4, err_msg=f"sample {number}")
        places = (state.window.held, state.window.slot, state.sweep_pass, state.cursor, state.seen)
        assert places == (len(naive.window), naive.slot, naive.sweep_pass, naive.cursor, naive.seen)
        assert state.live.number == len(naive.live)
        if state.cursor:  # else the next step clears the draft
            assert state.draft.number == len(naive.draft)
    return state, naive


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_the_naive_rendering(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, samples, method, smallest = random_stream(seed)
    monkeypatch.setattr(module, "MIN_WINDOW", smallest)
    state, naive = compare(task, samples, method)
    room = max(method.window * task.classes, smallest)
    assert state.seen > room == state.window.held
    assert naive.sweeps >= (1 if method.rows_per_step == 3 else 3)
    np.testing.assert_allclose(state.live.soft_count, naive.soft_count(naive.live), atol=1e-3)
    np.testing.assert_allclose(state.zero_shot_sum, naive.zero_shot_sum, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state.recent, naive.recent, atol=1e-4)
    found = (state.explained, state.compared, state.uneven_odds)
    assert found == pytest.approx((naive.explained, naive.compared, naive.uneven_odds), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("aux", [False, True])
def test_a_sudden_change_empties_the_window_as_in_the_naive_rendering(
    aux: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 60)
    monkeypatch.setattr(sample_window, "RECENT", 10)
    monkeypatch.setattr(naive_bayes_means, "RECENT", 10)
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=240)
    text = unit(as_float32(rng.standard_normal((4, 6))))
    clip = text[labels] + 0.6 * rng.standard_normal((240, 6))
    clip[120:] += 3.0  # another camera
    features = rng.standard_normal((4, 5))[labels] + 0.5 * rng.standard_normal((240, 5))
    features[120:] -= 3.0
    other = unit(as_float32(features)) if aux else [None] * 240
    samples = [Sample(row[None], extra) for row, extra in zip(unit(as_float32(clip)), other, strict=True)]
    task = Task(("a", "b", "c", "d"), text, 10.0, 5 if aux else None)
    state, naive = compare(task, samples, BayesMeans(window=3, rows_per_step=7, temporal=False))
    assert naive.changes >= 1
    assert state.window.held == len(naive.window)
