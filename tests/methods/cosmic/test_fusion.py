from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import Cosmic, make_method
from cosmic_tta.core.arrays import Array, as_float32, softmax, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.components.prototypes import PrototypeConfig
from cosmic_tta.methods.cosmic.fusion import BranchWeightLearner, CachePrediction, combine, cosine_without, fuse
from cosmic_tta.sessions.state_file import load, save


def test_fixed_weights_learn_nothing_and_sum_the_branches(pack: FeaturePack) -> None:
    method = make_method("cosmic@paper")
    state = method.init(pack.task())
    answers = [method.step(state, pack.sample(i)) for i in range(30)]
    assert state.branch_weights is None
    assert state.aux_class_sums is None
    parts = answers[-1].parts
    mixed = parts["zero_shot"] + parts["css"] + parts["afv"]
    np.testing.assert_allclose(answers[-1].scores, mixed / mixed.sum(), atol=1e-6)


def test_a_good_auxiliary_gets_weight_and_a_random_one_does_not() -> None:
    pack = superclass_pack(3, images=600, views=1)
    earned = {}
    for kind in ("given", "random"):
        variant = pack.with_aux(kind, 0)
        state = Cosmic().init(variant.task())
        Cosmic().steps(state, [variant.sample(i) for i in range(len(variant))])
        assert state.branch_weights is not None
        earned[kind] = state.branch_weights.weights().afv
    assert earned["given"] > 1
    assert earned["random"] < 0.2 * earned["given"]


def show_images(learner: BranchWeightLearner, agree: float, informed: float, images: int, seed: int = 0) -> None:
    """Show images whose cache answer agrees with the auxiliary space and with zero-shot with given probabilities."""
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
        learner.learn(zero_shot, evidence, CachePrediction(cosine, every, np.ones(4, np.float32), every))


def test_the_auxiliary_weight_grows_with_how_well_it_predicts_the_cache() -> None:
    earned = []
    for informed in (0.0, 0.3, 0.6, 0.9):
        learner = BranchWeightLearner.empty(4)
        show_images(learner, 0.6, informed, 300)
        earned.append(learner.weights().afv)
    assert earned[0] < 0.3
    assert earned == sorted(earned)


def test_the_weight_of_the_cache_grows_with_its_disagreements() -> None:
    shares = []
    for agree in (1.0, 0.8, 0.4):
        learner = BranchWeightLearner.empty(4)
        show_images(learner, agree, 0.0, 300)
        shares.append(learner.weights().css)
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] < 0.6


def test_a_stream_that_repeats_itself_lowers_the_weights() -> None:
    learner, every = BranchWeightLearner.empty(3), np.ones(3, bool)
    for label in np.repeat([0, 1, 2], 60):
        zero_shot = as_float32(0.05 + 0.85 * np.eye(3)[label])
        learner.learn(zero_shot, None, CachePrediction(np.roll(zero_shot, 1), every, np.ones(3, np.float32), every))
    assert learner.weights().css < 0.5 * learner.disagreements / learner.comparisons


def test_empty_caches_do_not_change_zero_shot() -> None:
    zero_shot: Array = as_float32([0.5, 0.3, 0.2])
    every, weights = np.ones(3, bool), BranchWeightLearner.empty(3).weights()._replace(css=0.5)
    for full, changed in ((0.0, False), (1.0, True)):
        cache = CachePrediction(as_float32([0.1, 0.9, 0.1]), every, np.full(3, full, np.float32), every)
        scores = combine(zero_shot, None, cache, weights, 100.0)
        assert (int(scores.argmax()) == 1) is changed or np.abs(scores - zero_shot).max() > 0.1
        assert np.allclose(scores, zero_shot, atol=1e-6) is not changed


def test_learned_weights_are_saved_and_corrupted_ones_refused(pack: FeaturePack, tmp_path: Path) -> None:
    method, state = Cosmic(), Cosmic().init(pack.task())
    method.steps(state, [pack.sample(i) for i in range(20)])
    save(tmp_path / "state", method, state)
    again = load(tmp_path / "state", method, pack.task())
    assert again.branch_weights is not None
    assert state.branch_weights is not None
    np.testing.assert_array_equal(again.branch_weights.precision, state.branch_weights.precision)
    again.branch_weights.precision = -again.branch_weights.precision
    with pytest.raises(SnapshotError, match="weights of the branches"):
        again.branch_weights.validate()


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


def test_a_prototype_without_one_sample_is_that_of_the_others() -> None:
    rng = np.random.default_rng(1)
    cache, prototypes = ClassCache.empty(2, 4, 8), PrototypeConfig("attention")
    rows = unit(as_float32(rng.standard_normal((3, 8))))
    for sample, row in enumerate(rows):
        cache.try_insert(0, row, 0.1, sample)
    weights = np.exp(-5.5 * (1 - rows[:2] @ rows[2]))
    centre = weights @ rows[:2]
    expected = centre @ rows[2] / np.linalg.norm(centre)
    assert cosine_without(cache, prototypes, 0, 2, rows[2]) == pytest.approx(expected, abs=1e-5)
    assert cosine_without(cache, prototypes, 1, 2, rows[2]) is None
