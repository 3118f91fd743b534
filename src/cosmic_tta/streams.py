"""Orders in which a pack's images arrive, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cosmic_tta.errors import InputError, unknown_name
from cosmic_tta.ops import Ints


def given(images: int, seed: int) -> Ints:
    """Keep the order of the pack."""
    return np.arange(images)


def shuffle(images: int, seed: int) -> Ints:
    """Draw a random order from the seed, the same on every machine."""
    return np.random.default_rng(seed).permutation(images)


ORDERS: Mapping[str, Callable[[int, int], Ints]] = {"given": given, "shuffle": shuffle}


def stream_order(name: str, images: int, seed: int, limit: int | None = None) -> Ints:
    """Return the positions of the images in the order of their arrival, the first `limit` of them."""
    if name not in ORDERS:
        raise unknown_name("order", name, ORDERS)
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")
    if limit is not None and limit < 1:
        raise InputError(f"the limit must be at least 1; given {limit}.")
    return ORDERS[name](images, seed)[:limit]
