"""Similarities: updated or new, in blocks or whole, with and without absent nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.arrays import Bools, as_float32, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.methods.cosmic.graph import similarity as module
from cosmic_tta.methods.cosmic.graph.similarity import Similarity, is_kept

compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not in use")


def panels(nodes: int, width: int) -> Any:
    return np.zeros(((nodes + 15) // 16, width, 16), np.float32)


@compiled
@given(st.integers(0, 10**6), st.integers(1, 150), st.integers(1, 700))
def test_updated_similarities_have_the_bits_of_new_ones(seed: int, nodes: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    features = unit(as_float32(rng.standard_normal((nodes, width))))
    kept, new = np.zeros((2, nodes, nodes), np.float32)
    room = panels(nodes, width)
    COMPILED.update_similarity(features, np.ones(nodes, bool), room, kept)
    changed = rng.random(nodes) < rng.choice([0.02, 0.3, 0.9])
    features[changed] = unit(as_float32(rng.standard_normal((int(changed.sum()), width))))
    COMPILED.update_similarity(features, changed, room, kept)
    COMPILED.update_similarity(features, np.ones(nodes, bool), panels(nodes, width), new)
    np.testing.assert_array_equal(np.tril(kept), np.tril(new))
    np.testing.assert_allclose(np.tril(new), np.tril(features @ features.T), atol=1e-6)
    start = int(rng.integers(nodes))
    rows = np.zeros((nodes - start, nodes), np.float32)
    COMPILED.similarity_rows(features, start, rows)
    np.testing.assert_array_equal(np.tril(new)[start:], np.tril(rows, start))


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 30), st.booleans())
def test_the_largest_pairs_are_the_largest_of_all(seed: int, nodes: int, keep: int, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    features = unit(as_float32(rng.standard_normal((nodes, 5))))
    present: Bools = rng.random(nodes) < (0.7 if gaps else 2)
    pairs = Similarity(features).largest(keep, present)
    values = (features @ features.T)[np.tril_indices(nodes, -1)]
    both = (present[:, None] & present)[np.tril_indices(nodes, -1)]
    expected = np.sort(values[both])[::-1]
    assert pairs.nodes == present.sum()
    assert len(pairs.values) >= min(keep, len(expected))
    np.testing.assert_allclose(np.sort(pairs.values)[::-1], expected[: len(pairs.values)], atol=1e-5)
    assert present[pairs.left].all()
    assert present[pairs.right].all()


def test_a_large_graph_keeps_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_NODES", 5)
    monkeypatch.setattr(module, "BLOCK_ROWS", 4)
    features = unit(as_float32(np.random.default_rng(0).standard_normal((11, 7))))
    assert not is_kept(6)
    blocks = Similarity(features)
    assert blocks.kept is None
    graph = blocks.above(0.1)
    monkeypatch.undo()
    np.testing.assert_array_equal(Similarity(features).above(0.1), graph)
    assert is_kept(11) == (COMPILED is not None)
