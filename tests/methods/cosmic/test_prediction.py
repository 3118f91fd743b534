"""What COSMIC predicts from its branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_tta import Cosmic, Sample
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack


def test_weights_fuse_the_branches(pack: FeaturePack) -> None:
    run = run_evaluation(Cosmic(earned=False, weights=(0.5, 2, 3)), pack, order="given")
    mixed = 0.5 * run.parts["zero_shot"] + 2 * run.parts["css"] + 3 * run.parts["afv"]
    np.testing.assert_allclose(run.scores, mixed / mixed.sum(axis=1, keepdims=True), atol=1e-5)


def test_where_nothing_weighs_zero_shot_answers(pack: FeaturePack) -> None:
    method = Cosmic(earned=False, weights=(0, 0, 1))
    state = method.init(pack.task())
    unlearned = method.peek(state, pack.sample(0))
    np.testing.assert_array_equal(unlearned.scores, unlearned.parts["zero_shot"])


def test_without_aux_cosmic_is_css_alone(pack: FeaturePack) -> None:
    method = Cosmic()
    state = method.init(replace(pack.task(), aux_dim=None))
    prediction = method.step(state, Sample(pack.clip[0]))
    assert set(prediction.parts) == {"zero_shot", "clip_cache", "css"}


def test_a_full_ratio_masks_nothing_and_a_small_one_does(pack: FeaturePack) -> None:
    wide = run_evaluation(Cosmic(ratio=1.0, score="exponential"), pack, order="given")
    narrow = run_evaluation(Cosmic(ratio=0.05, score="exponential"), pack, order="given")
    assert (wide.parts["css"] > 0).all()
    assert (narrow.parts["css"] == 0).any()


def test_why_names_hyper_classes_inliers_and_votes(pack: FeaturePack) -> None:
    method = Cosmic()
    state = method.init(pack.task())
    prediction = [method.step(state, pack.sample(i)) for i in range(len(pack))][-1]
    why = prediction.why
    answer = pack.class_names[prediction.label]
    for space in ("css", "afv"):
        assert answer in why.inliers[space]
        affinities = [chosen.affinity for chosen in why.hyper_classes[space]]
        assert affinities == sorted(affinities, reverse=True)
        weights = [vote.weight for vote in why.votes[space]]
        assert weights
        assert weights == sorted(weights, reverse=True)
        assert all(0 <= vote.sample < len(pack) and vote.label == answer for vote in why.votes[space])
    texts = {member for chosen in why.hyper_classes["css"] for member in chosen.members}
    assert any(member.endswith("(text)") for member in texts)
    assert any(member.endswith("(images)") for member in texts)
    assert all(member in pack.class_names for chosen in why.hyper_classes["afv"] for member in chosen.members)
