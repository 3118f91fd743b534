"""The nodes of the last graph: as rows or as slot weights, and for other classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic.frozen_nodes import FrozenNodes, empty_nodes

ROWS = unit(as_float32(np.random.default_rng(0).standard_normal((3, 6))))
ATTENTION, MEAN = PrototypeConfig("attention"), PrototypeConfig("mean")


def memory_of(config: PrototypeConfig, rows: Array) -> PrototypeMemory:
    """A memory with one sample per class."""
    memory = PrototypeMemory.empty(len(rows), 2, rows.shape[1], config)
    for label, row in enumerate(rows):
        memory.learn(config, label, row, 0.1, label)
    return memory


def test_a_value_never_changes() -> None:
    empty = FrozenNodes.empty(6, 2)
    one = empty.with_class(2, ROWS[2])
    assert one.with_class(2, ROWS[0]) is one  # the node of the graph stays
    two = one.with_class(0, ROWS[0])
    assert (empty.classes.tolist(), one.classes.tolist(), two.classes.tolist()) == ([], [2], [2, 0])
    np.testing.assert_array_equal(two.rows, ROWS[[2, 0]])
    assert len(two.cleared().classes) == len(two.cleared().rows) == 0
    weighted = two.with_weights(np.ones((3, 2), np.float32))
    assert len(weighted.rows) == 0
    assert len(weighted.with_all(ROWS).slot_weights) == 0


@pytest.mark.parametrize("text", [False, True])
def test_weights_become_rows(text: bool) -> None:
    config = ATTENTION._replace(text=ROWS[::-1].copy()) if text else ATTENTION
    memory = memory_of(config, ROWS)
    weights = np.zeros((3, 2 + text), np.float32)
    weights[:, 0] = 0.5
    weights[:, 2:] = 0.25
    nodes = FrozenNodes.empty(6, 2 + text).with_weights(weights).as_rows(config, memory)
    expected = unit(as_float32(0.5 * ROWS + 0.25 * ROWS[::-1])) if text else ROWS
    np.testing.assert_allclose(nodes.rows, expected, atol=1e-6)
    assert nodes.classes.tolist() == [0, 1, 2]
    assert nodes.as_rows(config, memory) is nodes


@pytest.mark.parametrize("config", [MEAN, ATTENTION])
def test_other_classes_keep_their_nodes_and_new_ones_have_none(config: PrototypeConfig) -> None:
    class_map = np.array([2, -1, 0])
    memory = memory_of(config, ROWS).remapped(config, config, class_map)
    if config is ATTENTION:
        frozen = FrozenNodes.empty(6, 2).with_all(ROWS).remapped(config, memory, class_map)
        np.testing.assert_array_equal(frozen.rows, np.stack([ROWS[2], np.zeros(6), ROWS[0]]))
        weights = as_float32([[1, 0], [2, 0], [3, 0]])
        weighted = FrozenNodes.empty(6, 2).with_weights(weights).remapped(config, memory, class_map)
        assert weighted.slot_weights[:, 0].tolist() == [3, 0, 1]
    else:
        frozen = FrozenNodes.empty(6, 0).with_class(1, ROWS[1]).with_class(2, ROWS[2])
        frozen = frozen.remapped(config, memory, class_map)
        assert frozen.classes.tolist() == [0]
        np.testing.assert_array_equal(frozen.rows, ROWS[[2]])


def test_the_text_alone_is_the_node_of_a_new_class() -> None:
    config = ATTENTION._replace(text=ROWS)
    memory = PrototypeMemory.empty(3, 2, 6, config)
    np.testing.assert_array_equal(empty_nodes(config, memory), ROWS)
    assert not empty_nodes(MEAN, PrototypeMemory.empty(3, 2, 6, MEAN)).any()
    weights = FrozenNodes.empty(6, 3).with_weights(np.zeros((3, 3), np.float32))
    remapped = weights.remapped(config, memory, np.array([0, -1, 1]))
    assert remapped.slot_weights[:, -1].tolist() == [0, 1, 0]


def test_impossible_contents_are_refused() -> None:
    good = FrozenNodes.empty(6, 2).with_class(2, ROWS[2])
    good.check(3)
    for bad in (
        replace(good, classes=np.array([3])),
        replace(good, classes=np.array([-1])),
        replace(good, classes=np.array([0, 1])),
        replace(good, classes=np.array([1, 1]), rows=ROWS[:2]),
        replace(good, slot_weights=np.ones((2, 2), np.float32)),
        replace(good, slot_weights=np.full((3, 2), -1, np.float32)),
    ):
        with pytest.raises(SnapshotError, match="not nodes of this space"):
            bad.check(3)
