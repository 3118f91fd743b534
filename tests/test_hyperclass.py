from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.errors import SnapshotError
from cosmic_tta.hyperclass import CentreKind, ClassMemory, HyperClasses
from cosmic_tta.ops import Array, as_float32, unit

NODES = unit(as_float32(np.random.default_rng(0).standard_normal((5, 6))))
CLIQUES = [(0, 1, 2), (2, 3), (4,)]


def test_an_anchor_is_the_mean_of_its_nodes_and_unit_for_a_cosine() -> None:
    plain = HyperClasses.of(CLIQUES, NODES, cosine=False)
    np.testing.assert_allclose(plain.anchors, [NODES[list(c)].mean(axis=0) for c in CLIQUES], atol=1e-6)
    np.testing.assert_allclose(HyperClasses.of(CLIQUES, NODES, cosine=True).anchors, unit(plain.anchors), atol=1e-6)
    assert [plain.members(i).tolist() for i in range(3)] == [list(c) for c in CLIQUES]


@pytest.mark.parametrize(
    ("ratio", "rounding", "count"),
    [(0.2, "floor", 1), (0.5, "floor", 1), (0.5, "ceil", 2), (2 / 3, "ceil", 2), (1, "ceil", 3)],
)
def test_the_nearest_are_selected_and_both_roundings_hold(ratio: float, rounding: str, count: int) -> None:
    hyper = HyperClasses.of(CLIQUES, NODES, cosine=True)
    query = unit(NODES[4] + np.float32(0.1) * NODES[2])
    selected, affinities = hyper.nearest(query, ratio, rounding)  # type: ignore[arg-type]
    assert len(selected) == count
    order = np.argsort(-(hyper.anchors @ query))
    np.testing.assert_array_equal(selected, order[:count])
    np.testing.assert_allclose(affinities, np.sort(hyper.anchors @ query)[::-1][:count])
    inside = {node for index in selected for node in CLIQUES[index]}
    assert set(np.flatnonzero(hyper.inliers(selected, 5)).tolist()) == inside


def test_ceil_is_not_fooled_by_floating_point() -> None:
    ten = HyperClasses.of([(0,)] * 10, NODES, cosine=True)
    assert len(ten.nearest(NODES[0], 0.7, "ceil")[0]) == 7  # 0.7·10 is 7.000000000000001 in floats


def learned(kind: CentreKind, offers: list[tuple[int, float]], decay: float = 0.75) -> tuple[ClassMemory, list[Array]]:
    rng = np.random.default_rng(1)
    memory = ClassMemory.empty(2, 3, 6, kind)
    features = [unit(as_float32(rng.standard_normal(6))) for _ in offers]
    for sample, ((label, entropy), feature) in enumerate(zip(offers, features, strict=True)):
        memory.learn(kind, decay, label, feature, entropy, sample)
    return memory, features


OFFERS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 2, width=16)), max_size=20)


@given(OFFERS)
def test_kept_means_are_the_means_of_the_slots(offers: list[tuple[int, float]]) -> None:
    memory, _ = learned("mean", offers)
    assert memory.centres is not None
    for label in range(2):
        filled = memory.cache.slots[label, : memory.cache.count[label]]
        expected = filled.mean(axis=0) if len(filled) else np.zeros(6)
        np.testing.assert_allclose(memory.centres[label], expected, atol=1e-6)


@given(OFFERS, st.sampled_from(["ema", "ema_all"]))
def test_moving_averages_follow_what_they_should(offers: list[tuple[int, float]], kind: CentreKind) -> None:
    memory, features = learned(kind, offers)
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
def test_attention_centres_weigh_slots_by_affinity(with_text: bool) -> None:
    memory, _ = learned("attention", [(0, 0.1), (0, 0.2), (1, 0.3)])
    query, text = NODES[0], NODES[:2]
    got = memory.centres_for(query, 5.5, text if with_text else None)
    for label in range(2):
        slots = list(memory.cache.slots[label, : memory.cache.count[label]]) + ([text[label]] if with_text else [])
        expected = sum(np.exp(-5.5 * (1 - query @ slot)) * slot for slot in slots)
        np.testing.assert_allclose(got[label], expected, atol=1e-6)


def test_a_text_counts_as_one_sample_of_a_mean() -> None:
    memory, _ = learned("mean", [(0, 0.1), (0, 0.2)])
    text = NODES[:2]
    got = memory.centres_for(NODES[0], 5.5, text)
    np.testing.assert_allclose(got[0], np.concatenate([memory.cache.slots[0, :2], text[:1]]).mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(got[1], text[1], atol=1e-6)


def test_contents_that_no_graph_gives_are_refused() -> None:
    good = HyperClasses.of(CLIQUES, NODES, cosine=True)
    good.validate()
    HyperClasses.empty(4).validate()
    for bad in (
        HyperClasses(good.nodes[:-1], good.sizes, good.anchors),
        HyperClasses(good.nodes, good.sizes[:-1], good.anchors),
        HyperClasses(-good.nodes, good.sizes, good.anchors),
        HyperClasses(good.nodes, good.sizes, good.anchors * np.float32(np.nan)),
    ):
        with pytest.raises(SnapshotError, match="contradict themselves"):
            bad.validate()
