from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.components.class_cache import ClassCache


def row(value: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(3, value / 1000, np.float32)


def test_a_class_fills_then_gives_up_its_least_sure() -> None:
    cache = ClassCache.empty(2, 2, 3)
    assert [cache.try_insert(1, row(i), e, i) for i, e in enumerate([0.5, 0.9])] == [0, 1]
    assert cache.try_insert(1, row(2), 0.9, 2) is None  # not below the highest
    assert cache.try_insert(1, row(3), 0.7, 3) == 1
    assert cache.count.tolist() == [0, 2]
    assert cache.sample[1].tolist() == [0, 3]
    np.testing.assert_array_equal(cache.slots[1], [row(0), row(3)])
    assert not cache.filled()[0].any()


def test_among_equals_the_latest_goes() -> None:
    cache = ClassCache.empty(1, 3, 3)
    for sample in range(3):
        cache.try_insert(0, row(sample), 0.5, sample)
    cache.try_insert(0, row(3), 0.25, 3)
    assert sorted(cache.sample[0].tolist()) == [0, 1, 3]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), max_size=60),
    st.integers(1, 4),
)
def test_it_keeps_what_a_list_sorted_stably_by_entropy_keeps(offers: list[tuple[int, int]], shots: int) -> None:
    cache = ClassCache.empty(3, shots, 3)
    lists: list[list[tuple[int, int]]] = [[], [], []]
    for sample, (label, entropy) in enumerate(offers):
        took = cache.try_insert(label, row(sample), entropy, sample)
        kept = lists[label]
        if len(kept) < shots or entropy < kept[-1][0]:
            del kept[shots - 1 :]
            kept.append((entropy, sample))
            kept.sort(key=lambda pair: pair[0])
            assert took is not None
        else:
            assert took is None
        cache.validate()
    for label, kept in enumerate(lists):
        assert sorted(s for s in cache.sample[label].tolist() if s >= 0) == sorted(s for _, s in kept)


@pytest.mark.parametrize("damage", ["count", "slots", "sample", "entropy"])
def test_contents_that_cannot_be_are_refused(damage: str) -> None:
    cache = ClassCache.empty(2, 2, 3)
    cache.try_insert(0, row(1), 0.5, 0)
    cache.validate()
    if damage == "count":
        cache.count[1] = 3
    elif damage == "slots":
        cache.slots[1, 1] = 1
    elif damage == "sample":
        cache.sample[0, 0] = -1
    else:
        cache.entropy[0, 0] = np.nan
    with pytest.raises(SnapshotError, match="contradicts itself"):
        cache.validate()
