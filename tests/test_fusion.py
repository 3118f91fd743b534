from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Cosmic, Sample, Task, make_method
from cosmic_tta.cache import ClassCache
from cosmic_tta.errors import SnapshotError
from cosmic_tta.evaluate import score
from cosmic_tta.fusion import ClassSums, Referee, Trust, combine, cosine_without
from cosmic_tta.hyperclass import Centring
from cosmic_tta.ops import Array, as_float32, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.snapshot import load, save
from cosmic_tta.synthetic import superclass_pack

FLOORS = {"whurs19-rn50": 0.935, "whurs19-vitb32": 0.902}


def accuracy(pack: FeaturePack, seeds: int = 2, aux: str = "given", order: str = "shuffle") -> float:
    runs = [score(Cosmic(), pack, seed=seed, aux=aux, order=order) for seed in range(seeds)]
    return float(np.mean([run.report.metrics["acc1"] for run in runs]))


def filled_cache(rng: np.random.Generator, classes: int = 5, shots: int = 4, dim: int = 8) -> ClassCache:
    cache = ClassCache.empty(classes, shots, dim)
    for sample, label in enumerate(rng.integers(classes - 1, size=14)):  # the last class stays empty
        cache.offer(int(label), unit(as_float32(rng.standard_normal(dim))), 0.1, sample)
    return cache


def sums_of(cache: ClassCache) -> ClassSums:
    sums = ClassSums.empty(len(cache.count), cache.slots.shape[2])
    for label in range(len(cache.count)):
        sums.follow(cache, label)
    return sums


@pytest.mark.parametrize("name", FLOORS)
def test_it_beats_the_label_searched_weights_without_a_label(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    runs = [score(Cosmic(), pack, seed=seed).report.metrics for seed in range(4)]
    mean = {key: np.mean([run[key] for run in runs]) for key in ("acc1", "ece", "gain")}
    assert mean["acc1"] >= FLOORS[name]
    assert mean["ece"] <= 0.09  # zero-shot's is above 0.10


@pytest.mark.parametrize("name", FLOORS)
def test_a_useless_auxiliary_does_not_hurt(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    alone = accuracy(pack, aux="none")
    assert alone >= score(Cosmic(), pack).report.metrics["zero_shot_acc1"] + 0.03
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


def test_fixed_weights_keep_no_trust_and_add_up_as_before(pack: FeaturePack) -> None:
    method = make_method("cosmic@paper")
    state = method.init(pack.task())
    answers = [method.step(state, pack.sample(i)) for i in range(30)]
    assert state.trust is None
    assert state.aux_sums is None
    parts = answers[-1].parts
    mixed = parts["zero_shot"] + parts["css"] + parts["afv"]
    np.testing.assert_allclose(answers[-1].scores, mixed / mixed.sum(), atol=1e-6)


def test_a_good_auxiliary_earns_weight_and_a_random_one_does_not() -> None:
    pack = superclass_pack(3, images=600, views=1)
    earned = {}
    for kind in ("given", "random"):
        told = pack.with_aux(kind, 0)
        state = Cosmic().init(told.task())
        Cosmic().steps(state, [told.sample(i) for i in range(len(told))])
        assert state.trust is not None
        earned[kind] = state.trust.weights().afv
    assert earned["given"] > 1
    assert earned["random"] < 0.2 * earned["given"]


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


def test_the_kept_sums_are_those_of_the_slots(pack: FeaturePack) -> None:
    state = Cosmic().init(pack.task())
    Cosmic().steps(state, [pack.sample(i) for i in range(len(pack))])
    assert state.afv is not None
    assert state.aux_sums is not None
    slots = state.afv.memory.cache.slots.sum(axis=1)
    np.testing.assert_allclose(state.aux_sums.sums, slots, atol=1e-5)
    np.testing.assert_allclose(state.aux_sums.total, slots.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(state.aux_sums.square, (slots * slots).sum(axis=1), rtol=1e-4, atol=1e-6)


def test_an_image_does_not_speak_for_itself() -> None:
    """The evidence of an image in the cache is that of a cache without it."""
    rng = np.random.default_rng(1)
    without, own = filled_cache(rng), unit(as_float32(rng.standard_normal(8)))
    held = ClassCache(without.slots.copy(), without.entropy.copy(), without.sample.copy(), without.count.copy())
    label = int(np.argmin(held.count[:-1]))
    assert held.offer(label, own, 0.05, 99) is not None
    inside = sums_of(held).evidence(own, held, label)
    np.testing.assert_allclose(inside, sums_of(without).evidence(own, without, None), atol=1e-4)
    assert inside[-1] == pytest.approx(0)  # a class without samples is novel
    rule = Centring("attention")
    rows = without.slots[label, : without.count[label]]
    weights = np.exp(-5.5 * (1 - rows @ own))
    centre = weights @ rows
    expected = centre @ own / np.linalg.norm(centre)
    assert cosine_without(held, rule, label, 99, own) == pytest.approx(expected, abs=1e-5)
    assert cosine_without(ClassCache.empty(2, 2, 8), rule, 0, 99, own) is None


def judge(trust: Trust, agree: float, informed: float, images: int, seed: int = 0) -> None:
    """Show images whose referee follows the auxiliary space with one probability, zero-shot with another."""
    rng = np.random.default_rng(seed)
    for _ in range(images):
        truth = int(rng.integers(4))
        evidence = rng.standard_normal(4) * 0.3
        evidence[truth if rng.random() < informed else rng.integers(4)] += 1
        zero_shot = np.full(4, 0.1, np.float32)
        zero_shot[truth if rng.random() < agree else rng.integers(4)] = 0.7
        cosine = np.zeros(4, np.float32)
        cosine[truth] = 1
        every = np.ones(4, bool)
        trust.learn(zero_shot, evidence, Referee(cosine, every, np.ones(4, np.float32), every))


def test_weights_grow_with_what_the_auxiliary_space_foretells() -> None:
    earned = []
    for informed in (0.0, 0.3, 0.6, 0.9):
        trust = Trust.empty(4)
        judge(trust, 0.6, informed, 300)
        earned.append(trust.weights().afv)
    assert earned[0] < 0.3
    assert earned == sorted(earned)


def test_the_share_of_the_cache_is_how_often_it_differs() -> None:
    shares = []
    for agree in (1.0, 0.8, 0.4):
        trust = Trust.empty(4)
        judge(trust, agree, 0.0, 300)
        shares.append(trust.weights().css)
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] < 0.6


def test_a_stream_that_repeats_itself_earns_less() -> None:
    trust, every = Trust.empty(3), np.ones(3, bool)
    for label in np.repeat([0, 1, 2], 60):
        zero_shot = as_float32(0.05 + 0.85 * np.eye(3)[label])
        trust.learn(zero_shot, None, Referee(np.roll(zero_shot, 1), every, np.ones(3, np.float32), every))
    assert trust.weights().css < 0.5 * trust.differed / trust.judged


def test_thin_caches_leave_zero_shot_alone() -> None:
    zero_shot: Array = as_float32([0.5, 0.3, 0.2])
    every, weights = np.ones(3, bool), Trust.empty(3).weights()._replace(css=0.5)
    for full, changed in ((0.0, False), (1.0, True)):
        referee = Referee(as_float32([0.1, 0.9, 0.1]), every, np.full(3, full, np.float32), every)
        scores = combine(zero_shot, None, referee, weights, 100.0)
        assert (int(scores.argmax()) == 1) is changed or np.abs(scores - zero_shot).max() > 0.1
        assert np.allclose(scores, zero_shot, atol=1e-6) is not changed


def test_trust_is_saved_and_a_damaged_one_refused(pack: FeaturePack, tmp_path: Path) -> None:
    method, state = Cosmic(), Cosmic().init(pack.task())
    method.steps(state, [pack.sample(i) for i in range(20)])
    save(tmp_path / "state", method, state)
    again = load(tmp_path / "state", method, pack.task())
    assert again.trust is not None
    assert state.trust is not None
    np.testing.assert_array_equal(again.trust.precision, state.trust.precision)
    again.trust.precision = -again.trust.precision
    with pytest.raises(SnapshotError, match="weights of the branches"):
        again.trust.validate()
