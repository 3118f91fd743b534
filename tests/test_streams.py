from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cosmic_tta.errors import InputError, UnknownNameError
from cosmic_tta.streams import ORDERS, stream_order

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 40))


def arrange(name: str, seed: int = 0) -> tuple[list[int], list[int]]:
    order = stream_order(name, len(LABELS), seed, LABELS)
    return order.tolist(), LABELS[order].tolist()


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_seeded_and_shows_no_image_twice(name: str) -> None:
    order, _ = arrange(name)
    assert len(set(order)) == len(order) <= 400
    assert set(order) <= set(range(400))
    assert order == arrange(name)[0]
    assert name == "given" or order != arrange(name, seed=1)[0]


@pytest.mark.parametrize("name", ["given", "shuffle", "class-sequential", "dirichlet"])
def test_most_orders_leave_nothing_out(name: str) -> None:
    assert sorted(arrange(name)[0]) == list(range(400))


def test_shuffle_is_numpys_permutation_and_limit_cuts_it() -> None:
    np.testing.assert_array_equal(stream_order("shuffle", 50, 7), np.random.default_rng(7).permutation(50))
    np.testing.assert_array_equal(stream_order("given", 50, 7, limit=3), [0, 1, 2])


def switches(labels: list[int]) -> int:
    return sum(a != b for a, b in pairwise(labels))


def test_correlated_orders_are_correlated() -> None:
    assert switches(arrange("class-sequential")[1]) == 9
    assert switches(arrange("dirichlet")[1]) < 0.85 * switches(arrange("shuffle")[1])


def test_a_dominant_class_is_half_of_the_stream() -> None:
    _, labels = arrange("dominant")
    assert len(labels) == 80
    assert max(np.bincount(labels)) == 40


def test_geometric_sizes_fall_from_the_largest_to_three_percent_of_it() -> None:
    sizes = sorted(np.bincount(arrange("geometric")[1]).tolist(), reverse=True)
    assert sizes[0] == 40
    assert sizes[-1] == 1
    np.testing.assert_allclose(sizes, [max(1, round(40 * 0.03 ** (rank / 9))) for rank in range(10)])


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown order 'shufle': did you mean 'shuffle'"):
        stream_order("shufle", 5, 0)
    with pytest.raises(InputError, match="limit must be at least 1; given 0"):
        stream_order("given", 5, 0, limit=0)
    with pytest.raises(InputError, match="seed must be 0 or more; given -1"):
        stream_order("given", 5, -1)
    with pytest.raises(InputError, match="'dirichlet' arranges images by label, and this pack has none"):
        stream_order("dirichlet", 5, 0)
