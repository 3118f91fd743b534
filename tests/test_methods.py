"""Each method against a plain rendering of its formula."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

from cosmic_tta import METHODS, Cosmic, Dmn, Sample, Support, Tda, TipAdapter, ZeroShot, make_method
from cosmic_tta.errors import ParameterError, UnknownNameError
from cosmic_tta.evaluate import score
from cosmic_tta.ops import Array, as_float32, softmax
from cosmic_tta.packs import FeaturePack
from cosmic_tta.synthetic import superclass_pack


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("cosmik", "unknown method 'cosmik': did you mean 'cosmic'"),
        ("cosmic@papr", "unknown preset of cosmic 'papr': did you mean 'paper'"),
        ("tda@paper", "unknown preset of tda 'paper': Known: default"),
    ],
)
def test_an_unknown_name_answers_did_you_mean(spec: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        make_method(spec)


def test_an_unknown_parameter_answers_did_you_mean() -> None:
    with pytest.raises(ParameterError, match="unknown parameter of cosmic 'shot': did you mean 'shots'"):
        make_method("cosmic", shot=4)


def test_presets_are_of_known_parameters_and_a_method_is_a_value() -> None:
    for name, kind in METHODS.items():
        if not {"support", "checkpoint"} & set(kind.needs):
            for preset in kind.presets:
                assert make_method(f"{name}@{preset}") == make_method(f"{name}@{preset}")
    paper = make_method("cosmic@paper")
    assert isinstance(paper, Cosmic)
    assert replace(paper, shots=3) == make_method("cosmic@paper", shots=3)


def test_zero_shot_is_the_softmax_of_scaled_cosines(pack: FeaturePack) -> None:
    run = score(ZeroShot(), pack, order="given")
    expected = softmax(np.float32(pack.logit_scale) * pack.clip[:, 0] @ pack.text.T)
    np.testing.assert_allclose(run.scores, expected, atol=1e-5)


def test_tip_adapter_is_its_formula(pack: FeaturePack) -> None:
    support = superclass_pack(3, images=40, dim=32, aux_dim=24, views=1).support()
    run = score(TipAdapter(support=support, alpha=1.3, beta=4.0), pack, order="given")
    onehot = np.eye(len(pack.class_names))[support.labels]
    cache = np.exp(-4.0 * (1 - pack.clip[:, 0] @ support.features.T)) @ onehot
    np.testing.assert_allclose(
        run.parts["logits"], pack.logit_scale * pack.clip[:, 0] @ pack.text.T + 1.3 * cache, atol=1e-3
    )


def cache_prediction(query: Array, support: Support, classes: int) -> Array:
    """Tip-Adapter's cache as the paper's appendix has it once the scaling function is taken away."""
    onehot = np.eye(classes, dtype=np.float32)[support.labels]
    return as_float32((query @ support.features.T) @ onehot)


def test_without_scaling_the_cache_is_the_similarity_to_class_sums(pack: FeaturePack) -> None:
    support = pack.support()
    classes = len(pack.class_names)
    sums = np.stack([support.features[support.labels == k].sum(axis=0) for k in range(classes)])
    got = cache_prediction(pack.clip[:, 0], support, classes)
    np.testing.assert_allclose(got, pack.clip[:, 0] @ sums.T, atol=1e-4)
    # And it is what our method does as its affinity becomes linear: exp(-β(1-x)) → 1 - β(1-x) for small β.
    beta = 1e-3
    run = score(TipAdapter(support=support, beta=beta), pack, order="given")
    counts = np.bincount(support.labels, minlength=classes)
    np.testing.assert_allclose((run.parts["cache"] - (1 - beta) * counts) / beta, got, atol=2e-2)


def test_divided_by_class_sizes_it_is_the_similarity_to_class_centroids(pack: FeaturePack) -> None:
    support = pack.support()
    classes = len(pack.class_names)
    sizes = np.bincount(support.labels, minlength=classes)
    assert (sizes > 0).all()
    centroids = np.stack([support.features[support.labels == k].mean(axis=0) for k in range(classes)])
    got = cache_prediction(pack.clip[:, 0], support, classes) / sizes
    np.testing.assert_allclose(got, pack.clip[:, 0] @ centroids.T, atol=1e-5)


def naive_tda(pack: FeaturePack, method: Tda) -> list[Array]:
    """TDA with lists kept sorted by loss, several views as the published program takes them."""
    classes = len(pack.class_names)
    text = pack.text.astype(np.float64)
    positive: list[list[tuple[float, Array]]] = [[] for _ in range(classes)]
    negative: list[list[tuple[float, Array, Array]]] = [[] for _ in range(classes)]

    def insert(kept: list, item: tuple, shots: int) -> None:  # type: ignore[type-arg]
        if len(kept) < shots:
            kept.append(item)
        elif item[0] < kept[-1][0]:
            kept[-1] = item
        kept.sort(key=lambda other: other[0])

    answers = []
    for views in pack.clip.astype(np.float64):
        logits = pack.logit_scale * views @ text.T
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if len(views) == 1:
            kept = np.array([0])
        else:
            entropies = -(p * np.log(p)).sum(axis=1)
            kept = np.argsort(entropies)[: max(1, int(method.confident * len(views)))]
        feature, mean_logits, row = views[kept].mean(axis=0), logits[kept].mean(axis=0), p[kept].mean(axis=0)
        loss = -(row * np.log(row + 1e-300)).sum()
        label = int(mean_logits.argmax())
        insert(positive[label], (loss, feature), method.shots)
        low, high = method.negative_entropy
        if low < loss / log2(classes) < high:
            insert(negative[label], (loss, feature, row), method.negative_shots)
        adapted = mean_logits.copy()
        for k in range(classes):
            for _, key in positive[k]:
                adapted[k] += method.alpha * np.exp(-method.beta * (1 - feature @ key))
            for _, key, stored in negative[k]:
                low, high = method.negative_mask
                against = (stored > low) & (stored < high)
                adapted -= method.negative_alpha * np.exp(-method.negative_beta * (1 - feature @ key)) * against
        answers.append(adapted)
    return answers


@pytest.mark.parametrize("views", [1, 8, 30])
def test_tda_is_the_plain_lists(views: int) -> None:
    pack = superclass_pack(5, images=150, dim=24, aux_dim=8, views=views)
    method = Tda(negative_alpha=1.0)
    run = score(method, pack, order="given")
    np.testing.assert_allclose(run.parts["logits"], np.stack(naive_tda(pack, method)), atol=2e-3)
    assert run.parts["negative"].any()


def test_dmn_is_zero_shot_and_the_official_memory(pack: FeaturePack) -> None:
    dmn = score(Dmn(), pack, order="given")
    cosmic = score(make_method("cosmic@official"), pack, order="given")
    np.testing.assert_array_equal(dmn.parts["clip_cache"], cosmic.parts["clip_cache"])
    mixed = dmn.parts["zero_shot"] + dmn.parts["clip_cache"]
    np.testing.assert_allclose(dmn.scores, mixed / mixed.sum(axis=1, keepdims=True), atol=1e-6)


def test_weights_fuse_the_branches(pack: FeaturePack) -> None:
    run = score(Cosmic(fusion="fixed", weights=(0.5, 2, 3)), pack, order="given")
    mixed = 0.5 * run.parts["zero_shot"] + 2 * run.parts["css"] + 3 * run.parts["afv"]
    np.testing.assert_allclose(run.scores, mixed / mixed.sum(axis=1, keepdims=True), atol=1e-5)


def test_where_nothing_weighs_zero_shot_answers(pack: FeaturePack) -> None:
    method = Cosmic(fusion="fixed", weights=(0, 0, 1))
    state = method.init(pack.task())
    unlearned = method.peek(state, pack.sample(0))
    np.testing.assert_array_equal(unlearned.scores, unlearned.parts["zero_shot"])


def test_without_aux_cosmic_is_css_alone(pack: FeaturePack) -> None:
    method = Cosmic()
    state = method.init(replace(pack.task(), aux_dim=None))
    prediction = method.step(state, Sample(pack.clip[0]))
    assert set(prediction.parts) == {"zero_shot", "clip_cache", "css"}


def test_a_full_ratio_masks_nothing_and_a_small_one_does(pack: FeaturePack) -> None:
    wide = score(Cosmic(ratio=1.0, score="exponential"), pack, order="given")
    narrow = score(Cosmic(ratio=0.05, score="exponential"), pack, order="given")
    assert (wide.parts["css"] > 0).all()
    assert (narrow.parts["css"] == 0).any()


@pytest.mark.parametrize("spec", ["tda", "dmn", "cosmic@official", "cosmic@paper", "cosmic"])
def test_adaptation_helps_on_a_shifted_stream(spec: str) -> None:
    gains = [score(make_method(spec), superclass_pack(seed), seed=seed).report.metrics["gain"] for seed in (0, 1)]
    assert np.mean(gains) > 0.005
