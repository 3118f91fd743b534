from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import Cosmic, make_method
from cosmic_tta.core.arrays import Array, as_float32, class_probabilities, dots, softmax
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.cosmic.fusion import AuxTrust, fuse
from cosmic_tta.sessions.state_file import load, save

WHURS = ("whurs19-rn50", "whurs19-vitb32")


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 2.0, 0.25), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
@pytest.mark.parametrize("aux", [True, False])
def test_branches_are_added_up_by_their_weights(weights: tuple[float, float, float], aux: bool) -> None:
    rng = np.random.default_rng(0)
    zero_shot, afv = softmax(as_float32(rng.standard_normal((2, 7))))
    css = as_float32(rng.random(14)) * (weights[0] > 0)  # nothing at all, where zero-shot does not weigh
    fused = fuse(zero_shot, css, afv if aux else None, weights)
    mean = (css[:7] + css[7:]) / 2
    summed = weights[0] * zero_shot + weights[1] * mean + weights[2] * (afv if aux else 0)
    np.testing.assert_allclose(fused.css, mean)
    np.testing.assert_allclose(fused.scores, summed / summed.sum() if summed.any() else zero_shot, rtol=1e-5)
    assert fused.label == fused.scores.argmax()


def test_fixed_weights_learn_nothing_and_sum_the_branches(pack: FeaturePack) -> None:
    for spec, parameters in (("cosmic@paper", {}), ("cosmic", {"earned": False})):
        method = make_method(spec, **parameters)
        assert isinstance(method, Cosmic)
        state = method.init(pack.task())
        answers = [method.step(state, pack.sample(i)) for i in range(30)]
        assert state.aux_trust is None
        parts, weights = answers[-1].parts, method.weights
        mixed = weights[0] * parts["zero_shot"] + weights[1] * parts["css"] + weights[2] * parts["afv"]
        np.testing.assert_allclose(answers[-1].scores, mixed / mixed.sum(), atol=1e-6)


def plain_trust(rows: list[tuple[Array, Array, Array]]) -> float:
    """How much likelier than by chance the auxiliary space agrees with CLIP, relative to CLIP's own two branches.

    Chance is two samples drawn independently of each other. Ten samples of full agreement come before the first.
    """
    beyond = possible = 10.0
    if rows:
        zero_shot, cache, aux = (np.array([row[part] for row in rows], np.float64) for part in range(3))
        with_clip, within_clip = aux @ ((zero_shot + cache) / 2).T, zero_shot @ cache.T  # [n, n] of all pairs
        beyond += float(np.trace(with_clip) - with_clip.mean() * len(rows))
        possible += float(np.trace(within_clip) - within_clip.mean() * len(rows))
    return min(max(beyond / max(possible, 1e-9), 0.0), 1.0)


def draw_branches(informed: float, seed: int, number: int = 200) -> list[tuple[Array, Array, Array]]:
    """Draw images whose auxiliary space names their class with a given probability, and any class otherwise."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(number):
        truth = int(rng.integers(5))
        named = truth if rng.random() < informed else int(rng.integers(5))
        logits = rng.standard_normal((3, 5))
        logits[:2, truth] += 3
        logits[2, named] += 3
        zero_shot, cache, aux = softmax(as_float32(logits))
        rows.append((zero_shot, cache, aux))
    return rows


@pytest.mark.parametrize("informed", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("number", [0, 1, 5, 200])
def test_trust_is_the_agreement_beyond_chance(informed: float, number: int) -> None:
    trust, rows = AuxTrust.empty(5), draw_branches(informed, 3, number)
    for row in rows:
        trust.learn(*row)
    assert trust.number == number
    assert trust.value() == pytest.approx(plain_trust(rows), abs=1e-4)
    if number == 0:
        assert trust.value() == 1


def test_trust_grows_with_what_the_auxiliary_space_knows() -> None:
    earned = []
    for informed in (0.0, 0.3, 0.6, 1.0):
        trust = AuxTrust.empty(5)
        for row in draw_branches(informed, 1, 600):
            trust.learn(*row)
        earned.append(trust.value())
    assert earned == sorted(earned)
    assert earned[0] < 0.15
    assert earned[-1] > 0.9


def test_agreement_by_chance_earns_no_trust() -> None:
    """In a stream of nearly one class, any two branches that name it agree."""
    rng = np.random.default_rng(0)
    usual, trust = as_float32([0.97, 0.01, 0.01, 0.01]), AuxTrust.empty(4)
    for _ in range(2000):
        truth = 0 if rng.random() < 0.8 else int(rng.integers(1, 4))
        clip = np.full(4, 0.01, np.float32)
        clip[truth] = 0.97
        trust.learn(clip, clip, usual)
    assert trust.aux_agreement / trust.clip_agreement > 0.7
    assert trust.value() < 0.05


def earned_trust(pack: FeaturePack, number: int) -> float:
    method, state = Cosmic(), Cosmic().init(pack.task())
    order = np.random.default_rng(0).permutation(len(pack))[:number]
    method.steps(state, [pack.sample(int(index)) for index in order])
    assert state.aux_trust is not None
    return state.aux_trust.value()


@pytest.mark.parametrize("name", WHURS)
def test_a_good_auxiliary_is_trusted_after_two_hundred_images_and_a_useless_one_is_not(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    assert earned_trust(pack, 200) > 0.9
    for useless in ("random", "shuffled"):
        assert earned_trust(pack.with_aux(useless, 0), 200) < 0.15


def test_a_random_auxiliary_of_a_generated_pack_is_not_trusted() -> None:
    pack = superclass_pack(3, images=600, views=1)
    assert earned_trust(pack, 600) > 0.5
    assert earned_trust(pack.with_aux("random", 0), 600) < 0.05


@pytest.mark.parametrize("name", WHURS)
def test_a_useless_auxiliary_costs_little(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)

    def accuracy(aux: str) -> float:
        runs = [run_evaluation(Cosmic(), pack, aux=aux, seed=seed, calibrate=False) for seed in range(3)]
        return float(np.mean([run.report.metrics["acc1"] for run in runs]))

    alone = accuracy("none")
    for useless in ("random", "shuffled"):
        assert accuracy(useless) >= alone - 0.005


def test_the_trust_of_before_the_image_weighs_its_branch(pack: FeaturePack) -> None:
    """The method learns from branches that have not seen the image; a plain replay of them gives the same scores."""
    method = Cosmic()
    state, rows = method.init(pack.task()), list[tuple[Array, Array, Array]]()
    assert state.afv is not None
    for index in range(len(pack)):
        sample, centres = pack.sample(index), state.afv.memory.nodes
        known = state.afv.memory.cache.count > 0
        assert centres is not None
        assert sample.aux is not None
        before = centres.copy()
        trust = plain_trust(rows)
        prediction = method.step(state, sample)
        parts = prediction.parts
        mixed = parts["zero_shot"] + parts["css"] + 1.5 * trust * parts["afv"]
        np.testing.assert_allclose(prediction.scores, mixed / mixed.sum(), atol=1e-4)
        if np.count_nonzero(known) >= 2:
            aux = np.zeros_like(parts["zero_shot"])
            aux[known] = class_probabilities(dots(before, sample.aux[None])[0][known], state.task.logit_scale)
            rows.append((parts["zero_shot"], parts["clip_cache"], aux))
    assert state.aux_trust is not None
    assert state.aux_trust.number == len(rows)
    assert state.aux_trust.value() == pytest.approx(plain_trust(rows), abs=1e-4)


def test_a_peek_teaches_no_trust(pack: FeaturePack) -> None:
    method, state = Cosmic(), Cosmic().init(pack.task())
    method.steps(state, [pack.sample(index) for index in range(20)])
    assert state.aux_trust is not None
    before = (state.aux_trust.number, state.aux_trust.value())
    method.peek(state, pack.sample(20))
    assert (state.aux_trust.number, state.aux_trust.value()) == before


def test_trust_is_saved_and_a_corrupted_one_refused(pack: FeaturePack, tmp_path: Path) -> None:
    method, state = Cosmic(), Cosmic().init(pack.task())
    method.steps(state, [pack.sample(i) for i in range(20)])
    save(tmp_path / "state", method, state)
    again = load(tmp_path / "state", method, pack.task())
    assert again.aux_trust is not None
    assert state.aux_trust is not None
    assert again.aux_trust.value() == state.aux_trust.value()
    for name, bad in (("number", -1), ("clip_agreement", -0.5), ("aux_agreement", float("nan"))):
        good = getattr(again.aux_trust, name)
        setattr(again.aux_trust, name, bad)
        with pytest.raises(SnapshotError, match="agreement of the branches"):
            again.validate()
        setattr(again.aux_trust, name, good)
    again.validate()


def test_trust_goes_with_its_classes() -> None:
    trust = AuxTrust.empty(5)
    for row in draw_branches(0.5, 2):
        trust.learn(*row)
    other = trust.remapped(np.array([4, 3, 2, 1, 0]))
    assert other.value() == pytest.approx(trust.value(), abs=1e-5)
    smaller = trust.remapped(np.array([0, -1, 2]))
    np.testing.assert_array_equal(smaller.probabilities[:, [0, 2]], trust.probabilities[:, [0, 2]])
    assert not smaller.probabilities[:, 1].any()
    assert smaller.number == trust.number
