from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import make_method
from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic import graph_nodes
from cosmic_tta.methods.cosmic.graph import gram_cache
from cosmic_tta.methods.cosmic.graph.similarity import Similarity
from cosmic_tta.methods.cosmic.graph_nodes import GraphNodes

compiled = pytest.mark.skipif(COMPILED is None, reason="only the compiled path keeps products")


def rows(rng: np.random.Generator, *shape: int) -> Array:
    return unit(as_float32(rng.standard_normal(shape)))


@compiled
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 4), st.integers(0, 90), st.booleans(), st.booleans())
def test_similarities_are_those_of_the_prototypes(
    seed: int, classes: int, shots: int, samples: int, text_slot: bool, cosine: bool
) -> None:
    rng, dim = np.random.default_rng(seed), 24
    texts = rows(rng, classes, dim) * as_float32(rng.uniform(0.999, 1.001, (classes, 1)))
    rule = PrototypeConfig("attention", text=unit(texts) if text_slot else None)
    memory = PrototypeMemory.empty(classes, shots, dim, rule)
    nodes = GraphNodes(texts, np.zeros_like(texts) if rule.text is None else rule.text, cosine)
    expected = nodes.rows.copy()
    for sample in range(samples):
        label = int(rng.integers(classes))
        slot = memory.learn(rule, label, rows(rng, dim), float(rng.random()), sample)
        if slot is not None:
            nodes.changed.add((label, slot))
        if sample % 7 and sample < samples - 1:
            continue
        query = rows(rng, 1, dim)
        attention = memory.attend(rule, memory.slot_dots(query)[0], None if rule.text is None else rule.text @ query[0])
        nodes.update(rule, memory, attention)
        memory.mix(rule, attention.weights, expected[classes:])
        features = unit(expected) if cosine else expected
        assert nodes.similarity.kept is not None
        np.testing.assert_allclose(np.tril(nodes.similarity.kept), np.tril(features @ features.T), atol=2e-6)
        # New nodes, as after loading a state, give the same bits.
        again = GraphNodes(texts, np.zeros_like(texts) if rule.text is None else rule.text, cosine)
        again.update(rule, memory, attention)
        assert again.similarity.kept is not None
        np.testing.assert_array_equal(np.tril(nodes.similarity.kept), np.tril(again.similarity.kept))


@compiled
def test_with_more_samples_the_prototypes_are_multiplied_and_the_decisions_stay() -> None:
    pack = superclass_pack(seed=8, images=200, superclasses=5, members=4, views=2, dim=40, aux_dim=32)
    samples = [pack.sample(index) for index in range(len(pack))]
    for spec in ("cosmic@official", "cosmic"):
        method, answers = make_method(spec), []
        for most in (0, 30, gram_cache.MAX_SAMPLES):
            with patch.object(graph_nodes, "MAX_SAMPLES", most):
                state = method.init(pack.task())
                answers.append(np.stack([p.scores for p in method.steps(state, samples)]))
        for other in answers[1:]:
            np.testing.assert_array_equal(other.argmax(axis=1), answers[0].argmax(axis=1))
            assert (np.abs(other - answers[0]).max(axis=1) < 1e-4).mean() > 0.95


def test_only_the_compiled_path_keeps_similarities() -> None:
    similarity = Similarity(rows(np.random.default_rng(0), 6, 8))
    assert (similarity.kept is None) == (COMPILED is None)
