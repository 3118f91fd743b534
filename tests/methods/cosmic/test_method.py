"""COSMIC as a whole: its answers on real features, and its first answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Cosmic, Sample, Task, make_method
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import ParameterError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack

FLOORS = {"whurs19-rn50": 0.935, "whurs19-vitb32": 0.902}


def accuracy(pack: FeaturePack, seeds: int = 2, aux: str = "given", order: str = "shuffle") -> float:
    runs = [run_evaluation(Cosmic(), pack, seed=seed, aux=aux, order=order) for seed in range(seeds)]
    return float(np.mean([run.report.metrics["acc1"] for run in runs]))


@pytest.mark.parametrize("name", FLOORS)
def test_it_beats_the_label_searched_weights_without_a_label(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    runs = [run_evaluation(Cosmic(), pack, seed=seed).report.metrics for seed in range(4)]
    mean = {key: np.mean([run[key] for run in runs]) for key in ("acc1", "ece", "gain")}
    assert mean["acc1"] >= FLOORS[name]
    assert mean["gain"] >= 0.08


@pytest.mark.parametrize("name", FLOORS)
def test_a_useless_auxiliary_does_not_hurt(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    alone = accuracy(pack, aux="none")
    assert alone >= run_evaluation(Cosmic(), pack).report.metrics["zero_shot_acc1"] + 0.03
    for useless in ("random", "shuffled"):
        assert accuracy(pack, aux=useless) >= alone - 0.005


@pytest.mark.parametrize("order", ["class-sequential", "dirichlet"])
def test_correlated_streams_gain_too(shared: Path, order: str) -> None:
    for name, least in (("whurs19-rn50", 0.825), ("whurs19-vitb32", 0.845)):
        assert accuracy(FeaturePack.open(shared / "packs" / name), order=order) >= least


def test_the_first_answer_is_that_of_zero_shot(pack: FeaturePack) -> None:
    one_view = replace(pack, clip=pack.clip[:, :1])
    for each in (one_view, one_view.with_aux("none")):
        for index in range(20):
            answer = Cosmic().step(Cosmic().init(each.task()), each.sample(index))
            assert answer.label == answer.parts["zero_shot"].argmax()


def sample_of_entropy(step: float) -> Sample:
    """Return an image of class 0 of two; the larger the step towards class 1, the larger is its entropy."""
    row = as_float32([np.cos(step), np.sin(step)])
    return Sample(row[None], row)


@pytest.mark.parametrize(("aging", "kept"), [(0.0, 0), (0.02, 9)])
def test_with_aging_an_old_image_makes_room_for_one_of_slightly_higher_entropy(aging: float, kept: int) -> None:
    method = Cosmic(shots=1, aux_shots=1, aging=aging)
    state = method.init(Task(("a", "b"), np.eye(2, dtype=np.float32), logit_scale=4.0))
    method.step(state, sample_of_entropy(0.1))
    for _ in range(8):
        method.step(state, sample_of_entropy(1.4))  # of the other class
    method.step(state, sample_of_entropy(0.13))
    assert state.afv is not None
    for space in (state.css, state.afv):
        assert space.memory.cache.sample[0].tolist() == [kept]
        assert space.memory.cache.entropy.dtype == np.float32
    state.validate()


def test_with_aging_an_image_of_much_higher_entropy_still_finds_no_room() -> None:
    method = Cosmic(shots=1, aux_shots=1, aging=0.02)
    state = method.init(Task(("a", "b"), np.eye(2, dtype=np.float32), logit_scale=4.0))
    method.step(state, sample_of_entropy(0.1))
    for _ in range(9):
        method.step(state, sample_of_entropy(0.7))
    assert state.css.memory.cache.sample[0].tolist() == [0]


def test_with_aging_a_block_gives_what_single_steps_give(pack: FeaturePack) -> None:
    method = Cosmic(shots=2, aux_shots=2, aging=0.3)
    one, many = method.init(pack.task()), method.init(pack.task())
    samples = [pack.sample(index) for index in range(len(pack))]
    singles = [method.step(one, sample) for sample in samples]
    for single, other in zip(singles, method.steps(many, samples), strict=True):
        np.testing.assert_array_equal(single.scores, other.scores)
    assert state_digest(one) == state_digest(many)


def test_the_age_of_an_image_is_counted_in_fillings_of_the_cache() -> None:
    """After as many samples as there are slots, a cached sample has gained `aging`."""
    method = Cosmic(shots=3, aging=0.5)
    state = method.init(Task(("a", "b"), np.eye(2, dtype=np.float32)))
    ages = []
    for seen in (0, 6, 12):
        state.seen = seen
        ages.append(method._age(state))
    assert ages == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("classes", [1, 2, 3])
@given(seed=st.integers(0, 10**6))
def test_few_classes_give_valid_scores(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = unit(as_float32(rng.standard_normal((40, 6))))
    rows[::5] = rows[0]
    task = Task(tuple(f"class {k}" for k in range(classes)), unit(as_float32(rng.standard_normal((classes, 6)))))
    state = Cosmic().init(task)
    for row in rows:
        scores = Cosmic().step(state, Sample(row[None], row[::-1].copy())).scores
        assert np.isfinite(scores).all()
        assert scores.sum() == pytest.approx(1, abs=1e-4)


def test_every_part_of_the_paper_is_reported(pack: FeaturePack) -> None:
    for spec, aux_cache in (("cosmic", False), ("cosmic@official", True), ("cosmic@paper", False)):
        method = make_method(spec)
        parts = method.step(method.init(pack.task()), pack.sample(0)).parts
        expected = {"zero_shot", "clip_cache", "css", "afv"} | ({"aux_cache"} if aux_cache else set())
        assert set(parts) == expected
        assert all(part.shape == (len(pack.class_names),) for part in parts.values())


def test_attention_prototypes_always_have_unit_length() -> None:
    with pytest.raises(ParameterError, match="given unit_aux_centres=false. Set unit_aux_centres=true"):
        Cosmic(aux_centre="attention", unit_aux_centres=False)
