"""The nodes of a graph: updated nodes equal new ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic.graph_nodes import GraphNodes


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("with_texts", [False, True])
@given(seed=st.integers(0, 10**6), samples=st.integers(1, 20))
def test_updated_mean_nodes_have_the_bits_of_new_ones(with_texts: bool, cosine: bool, seed: int, samples: int) -> None:
    rng = np.random.default_rng(seed)
    texts = unit(as_float32(rng.standard_normal((4, 6)))) if with_texts else None
    config = PrototypeConfig("mean", unit=False)
    memory = PrototypeMemory.empty(4, 3, 6, config)
    assert memory.nodes is not None
    nodes = GraphNodes(texts, memory.nodes, cosine)
    for sample in range(samples):
        label = int(rng.integers(4))
        slot = memory.learn(config, label, unit(as_float32(rng.standard_normal(6))), float(rng.random()), sample)
        if slot is not None:
            nodes.changed.add((label, slot))
        if sample % 3 == 0:
            nodes.update(config, memory, None)
    nodes.update(config, memory, None)
    assert not nodes.changed
    new = GraphNodes(texts, memory.nodes, cosine)
    np.testing.assert_array_equal(nodes.rows, new.rows)
    np.testing.assert_array_equal(nodes.similarity.features, new.similarity.features)
    if nodes.similarity.kept is not None and new.similarity.kept is not None:
        np.testing.assert_array_equal(np.tril(nodes.similarity.kept), np.tril(new.similarity.kept))


def test_buffers_are_used_again() -> None:
    config = PrototypeConfig("mean")
    memory, texts = PrototypeMemory.empty(4, 3, 6, config), np.eye(4, 6, dtype=np.float32)
    assert memory.nodes is not None
    nodes = GraphNodes(texts, memory.nodes, cosine=False)
    assert nodes.slot_products(memory.cache) is nodes.slot_products(memory.cache)
    assert nodes.slot_products(memory.cache).shape == (4, 3)
    assert nodes.text_dots(5) is nodes.text_dots(5)
    assert nodes.text_dots(2).shape == (2, 4)
