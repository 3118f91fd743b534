from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import hyperclass
from cosmic_tta.cliques import Cliques
from cosmic_tta.errors import SnapshotError
from cosmic_tta.hyperclass import CentreKind, Centring, ClassMemory, HyperClasses, Score
from cosmic_tta.ops import Array, as_float32, unit

NODES = unit(as_float32(np.random.default_rng(0).standard_normal((5, 6))))
CLIQUES = [(0, 1, 2), (2, 3), (4,)]


def listed(cliques: list[tuple[int, ...]]) -> Cliques:
    nodes = np.array([node for clique in cliques for node in clique])
    sizes = np.array([len(clique) for clique in cliques])
    return Cliques(nodes, sizes, np.float32(1) / as_float32(sizes), True)


@pytest.mark.parametrize("cosine", [False, True])
def test_an_affinity_is_the_product_with_the_mean_of_the_nodes_or_its_cosine(cosine: bool) -> None:
    hyper = HyperClasses.of(listed(CLIQUES), NODES, cosine=cosine)
    means = as_float32([NODES[list(c)].mean(axis=0) for c in CLIQUES])
    query = NODES[3]
    nearest = hyper.nearest(NODES @ query, 1, "ceil")
    np.testing.assert_allclose(nearest.affinities, (unit(means) if cosine else means) @ query, atol=1e-6)
    assert [hyper.members(i).tolist() for i in range(3)] == [list(c) for c in CLIQUES]


@pytest.mark.parametrize(
    ("ratio", "rounding", "count"),
    [(0.2, "floor", 1), (0.5, "floor", 1), (0.5, "ceil", 2), (2 / 3, "ceil", 2), (1, "ceil", 3)],
)
def test_the_nearest_are_selected_and_both_roundings_hold(ratio: float, rounding: str, count: int) -> None:
    hyper = HyperClasses.of(listed(CLIQUES), NODES, cosine=True)
    query = unit(NODES[4] + np.float32(0.1) * NODES[2])
    nearest = hyper.nearest(NODES @ query, ratio, rounding)  # type: ignore[arg-type]
    selected = nearest.selected()
    assert len(selected) == nearest.keep == count
    np.testing.assert_array_equal(selected, np.argsort(-nearest.affinities)[:count])
    inside = {node for index in selected for node in CLIQUES[index]}
    assert set(np.flatnonzero(nearest.inliers).tolist()) == inside


@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0, 1))
def test_among_equals_the_first_are_selected(seed: int, number: int, ratio: float) -> None:
    scores = as_float32(np.random.default_rng(seed).integers(0, 3, number))
    hyper = HyperClasses.of(listed([(node,) for node in range(number)]), np.eye(number, dtype=np.float32), cosine=False)
    nearest = hyper.nearest(scores, ratio, "ceil")
    expected = sorted(range(number), key=lambda node: (-scores[node], node))[: nearest.keep]
    assert nearest.selected().tolist() == expected
    assert np.flatnonzero(nearest.inliers).tolist() == sorted(expected)


def test_only_inliers_score() -> None:
    hyper = HyperClasses.of(listed(CLIQUES), NODES, cosine=True)
    query, today = NODES @ NODES[3], as_float32([1, 0.5, 0, -1, 0.25])
    nearest = hyper.nearest(query, 0.6, "floor", Score(today, 2.0, 5.0))
    assert nearest.scores is not None
    assert nearest.inliers.any()
    assert not nearest.inliers.all()
    np.testing.assert_allclose(nearest.scores, 2 * np.exp(-5 * (1 - today)) * nearest.inliers, rtol=1e-5)
    assert hyper.nearest(query, 0.6, "floor").scores is None


def test_ceil_is_not_fooled_by_floating_point() -> None:
    ten = HyperClasses.of(listed([(0,)] * 10), NODES, cosine=True)
    assert ten.nearest(NODES @ NODES[0], 0.7, "ceil").keep == 7  # 0.7·10 is 7.000000000000001 in floats


def learned(rule: Centring, offers: list[tuple[int, float]]) -> tuple[ClassMemory, list[Array]]:
    rng = np.random.default_rng(1)
    memory = ClassMemory.empty(2, 3, 6, rule)
    features = [unit(as_float32(rng.standard_normal(6))) for _ in offers]
    for sample, ((label, entropy), feature) in enumerate(zip(offers, features, strict=True)):
        memory.learn(rule, label, feature, entropy, sample)
    return memory, features


OFFERS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 2, width=16)), max_size=20)


@given(OFFERS)
def test_kept_means_are_the_means_of_the_slots(offers: list[tuple[int, float]]) -> None:
    memory, _ = learned(Centring("mean", unit=False), offers)
    assert memory.centres is not None
    for label in range(2):
        filled = memory.cache.slots[label, : memory.cache.count[label]]
        expected = filled.mean(axis=0) if len(filled) else np.zeros(6)
        np.testing.assert_allclose(memory.centres[label], expected, atol=1e-6)
    np.testing.assert_array_equal(memory.nodes, memory.centres)


@given(OFFERS, st.sampled_from(["ema", "ema_all"]))
def test_moving_averages_follow_what_they_should(offers: list[tuple[int, float]], kind: CentreKind) -> None:
    memory, features = learned(Centring(kind, decay=0.75), offers)
    expected: list[Array | None] = [None, None]
    entropies: list[list[float]] = [[], []]
    for (label, entropy), feature in zip(offers, features, strict=True):
        kept = sorted([*entropies[label], entropy])[:3]
        took = len(entropies[label]) < 3 or entropy < max(entropies[label])
        entropies[label] = kept
        if took or kind == "ema_all":
            old = expected[label]
            expected[label] = feature if old is None else as_float32(0.75 * old + 0.25 * feature)
    assert memory.centres is not None
    for label, centre in enumerate(expected):
        np.testing.assert_allclose(memory.centres[label], np.zeros(6) if centre is None else centre, atol=1e-5)


@pytest.mark.parametrize("with_text", [False, True])
@given(offers=OFFERS)
def test_attention_centres_weigh_slots_by_affinity(with_text: bool, offers: list[tuple[int, float]]) -> None:
    query, text = NODES[0], NODES[1:3]
    rule = Centring("attention", text=text if with_text else None)
    memory, _ = learned(rule, offers)
    attention = memory.attend(rule, memory.slot_dots(query[None])[0], text @ query if with_text else None)
    centres = np.full((2, 6), 7, np.float32)
    memory.mix(rule, attention.weights, centres)
    for label in range(2):
        filled = list(memory.cache.slots[label, : memory.cache.count[label]])
        slots = filled + ([text[label]] if with_text else [])
        total = sum((np.exp(-5.5 * (1 - query @ slot)) * slot for slot in slots), np.zeros(6))
        expected = unit(as_float32(total))
        np.testing.assert_allclose(attention.cosine[label], expected @ query, atol=1e-6)
        # A class without samples is left alone.
        np.testing.assert_allclose(centres[label], expected if filled else np.full(6, 7), atol=1e-6)


def test_a_text_counts_as_one_sample_of_a_mean() -> None:
    text = NODES[:2]
    memory, _ = learned(Centring("mean", unit=False, text=text), [(0, 0.1), (0, 0.2)])
    assert memory.nodes is not None
    mean = np.concatenate([memory.cache.slots[0, :2], text[:1]]).mean(axis=0)
    np.testing.assert_allclose(memory.nodes[0], mean, atol=1e-6)
    np.testing.assert_allclose(memory.nodes[1], text[1], atol=1e-6)


def test_contents_that_no_graph_gives_are_refused() -> None:
    good = HyperClasses.of(listed(CLIQUES), NODES, cosine=True)
    good.validate()
    HyperClasses.empty().validate()
    for bad in (
        HyperClasses(good.nodes[:-1], good.sizes, good.scale),
        HyperClasses(good.nodes, good.sizes[:-1], good.scale),
        HyperClasses(-good.nodes, good.sizes, good.scale),
        HyperClasses(good.nodes, good.sizes, good.scale * np.float32(np.nan)),
    ):
        with pytest.raises(SnapshotError, match="contradict themselves"):
            bad.validate()


@given(st.integers(0, 10**6), st.sampled_from(["attention", "mean", "ema", "ema_all"]), st.booleans(), st.booleans())
def test_both_paths_learn_the_same(seed: int, kind: CentreKind, text: bool, unit_length: bool) -> None:
    rng = np.random.default_rng(seed)
    rule = Centring(kind, unit=unit_length, text=NODES if text else None)
    mine, plain = (ClassMemory.empty(5, 3, 6, rule) for _ in range(2))
    for sample in range(40):
        label, entropy = int(rng.integers(5)), float(np.float32(rng.integers(4)) / 4)
        feature = unit(as_float32(rng.standard_normal(6)))
        slot = mine.learn(rule, label, feature, entropy, sample)
        with patch.object(hyperclass, "COMPILED", None):
            assert slot == plain.learn(rule, label, feature, entropy, sample)
    for name in ("slots", "entropy", "sample", "count"):
        np.testing.assert_array_equal(getattr(mine.cache, name), getattr(plain.cache, name))
    for one, other in ((mine.gram, plain.gram), (mine.centres, plain.centres), (mine.nodes, plain.nodes)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one, other, atol=1e-6)
