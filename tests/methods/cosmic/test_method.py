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
    assert mean["ece"] <= 0.09  # zero-shot's is above 0.10


@pytest.mark.parametrize("name", FLOORS)
def test_a_useless_auxiliary_does_not_hurt(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    alone = accuracy(pack, aux="none")
    assert alone >= run_evaluation(Cosmic(), pack).report.metrics["zero_shot_acc1"] + 0.03
    for useless in ("random", "shuffled"):
        assert accuracy(pack, aux=useless) >= alone - 0.005


@pytest.mark.parametrize("order", ["class-sequential", "dirichlet"])
def test_correlated_streams_gain_too(shared: Path, order: str) -> None:
    for name, least in (("whurs19-rn50", 0.85), ("whurs19-vitb32", 0.85)):
        assert accuracy(FeaturePack.open(shared / "packs" / name), order=order) >= least


def test_the_first_answer_is_zero_shot_to_the_last_bits(pack: FeaturePack) -> None:
    for each in (pack, replace(pack, aux=None)):
        state = Cosmic().init(each.task())
        peeked, stepped = Cosmic().peek(state, each.sample(0)), Cosmic().step(state, each.sample(0))
        for answer in (peeked, stepped):
            np.testing.assert_allclose(answer.scores, answer.parts["zero_shot"], atol=1e-6)


@pytest.mark.parametrize("classes", [1, 2, 3])
@given(seed=st.integers(0, 10**6))
def test_few_classes_give_sound_scores(classes: int, seed: int) -> None:
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
