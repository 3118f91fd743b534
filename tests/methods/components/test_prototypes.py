from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.methods.components import prototypes
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeKind, PrototypeMemory

NODES = unit(as_float32(np.random.default_rng(0).standard_normal((5, 6))))
OFFERS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 2, width=16)), max_size=20)


def learned(rule: PrototypeConfig, offers: list[tuple[int, float]]) -> tuple[PrototypeMemory, list[Array]]:
    rng = np.random.default_rng(1)
    memory = PrototypeMemory.empty(2, 3, 6, rule)
    features = [unit(as_float32(rng.standard_normal(6))) for _ in offers]
    for sample, ((label, entropy), feature) in enumerate(zip(offers, features, strict=True)):
        memory.learn(rule, label, feature, entropy, sample)
    return memory, features


@given(OFFERS)
def test_kept_means_are_the_means_of_the_slots(offers: list[tuple[int, float]]) -> None:
    memory, _ = learned(PrototypeConfig("mean", unit=False), offers)
    assert memory.centres is not None
    for label in range(2):
        filled = memory.cache.slots[label, : memory.cache.count[label]]
        expected = filled.mean(axis=0) if len(filled) else np.zeros(6)
        np.testing.assert_allclose(memory.centres[label], expected, atol=1e-6)
    np.testing.assert_array_equal(memory.nodes, memory.centres)


@given(OFFERS, st.sampled_from(["ema", "ema_all"]))
def test_moving_averages_follow_what_they_should(offers: list[tuple[int, float]], kind: PrototypeKind) -> None:
    memory, features = learned(PrototypeConfig(kind, decay=0.75), offers)
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
    rule = PrototypeConfig("attention", text=text if with_text else None)
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
    memory, _ = learned(PrototypeConfig("mean", unit=False, text=text), [(0, 0.1), (0, 0.2)])
    assert memory.nodes is not None
    mean = np.concatenate([memory.cache.slots[0, :2], text[:1]]).mean(axis=0)
    np.testing.assert_allclose(memory.nodes[0], mean, atol=1e-6)
    np.testing.assert_allclose(memory.nodes[1], text[1], atol=1e-6)


@given(st.integers(0, 10**6), st.sampled_from(["attention", "mean", "ema", "ema_all"]), st.booleans(), st.booleans())
def test_both_paths_learn_the_same(seed: int, kind: PrototypeKind, text: bool, unit_length: bool) -> None:
    rng = np.random.default_rng(seed)
    rule = PrototypeConfig(kind, unit=unit_length, text=NODES if text else None)
    mine, plain = (PrototypeMemory.empty(5, 3, 6, rule) for _ in range(2))
    for sample in range(40):
        label, entropy = int(rng.integers(5)), float(np.float32(rng.integers(4)) / 4)
        feature = unit(as_float32(rng.standard_normal(6)))
        slot = mine.learn(rule, label, feature, entropy, sample)
        with patch.object(prototypes, "COMPILED", None):
            assert slot == plain.learn(rule, label, feature, entropy, sample)
    for name in ("slots", "entropy", "sample", "count"):
        np.testing.assert_array_equal(getattr(mine.cache, name), getattr(plain.cache, name))
    for one, other in ((mine.gram, plain.gram), (mine.centres, plain.centres), (mine.nodes, plain.nodes)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one, other, atol=1e-6)
