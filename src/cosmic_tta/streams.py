"""Orders in which a pack's images arrive, by name: each seeded, on any pack.

Some arrange the stream by the images' labels, which the evaluator knows and no method sees; some leave images out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cosmic_tta.errors import InputError, unknown_name
from cosmic_tta.ops import Ints

CHUNKS = 10  # of a Dirichlet stream
CONCENTRATION = 0.1
RAREST = 0.03  # geometric sizes: the rarest class has this share of the largest


def given(labels: Ints, seed: int) -> Ints:
    """Keep the order of the pack."""
    return np.arange(len(labels))


def shuffle(labels: Ints, seed: int) -> Ints:
    """Draw a random order, the same on every machine."""
    return np.random.default_rng(seed).permutation(len(labels))


def class_sequential(labels: Ints, seed: int) -> Ints:
    """Show one class after the other, classes and images in random order."""
    rng = np.random.default_rng(seed)
    return np.concatenate([_own(labels, k, rng) for k in rng.permutation(np.unique(labels))])


def dirichlet(labels: Ints, seed: int) -> Ints:
    """Spread each class unevenly over ten chunks of the stream, by a Dirichlet(0.1) draw; shuffle within a chunk."""
    rng = np.random.default_rng(seed)
    chunks: list[list[Ints]] = [[] for _ in range(CHUNKS)]
    for k in np.unique(labels):
        images = _own(labels, k, rng)
        chunk = rng.choice(CHUNKS, len(images), p=rng.dirichlet([CONCENTRATION] * CHUNKS))
        for place in range(CHUNKS):
            chunks[place].append(images[chunk == place])
    return np.concatenate([rng.permutation(np.concatenate(parts)) for parts in chunks])


def dominant(labels: Ints, seed: int) -> Ints:
    """Make one class half of the stream: all its images, and as many of the others."""
    rng = np.random.default_rng(seed)
    chosen = labels == rng.choice(np.unique(labels))
    own, others = np.flatnonzero(chosen), rng.permutation(np.flatnonzero(~chosen))
    return rng.permutation(np.concatenate([own, others[: len(own)]]))


def geometric(labels: Ints, seed: int) -> Ints:
    """Give the classes geometric sizes, in random order of rank, the rarest 3 % of the largest; then shuffle."""
    rng = np.random.default_rng(seed)
    ranked = rng.permutation(np.unique(labels))
    largest = int(np.bincount(labels).max())
    kept = []
    for rank, k in enumerate(ranked):
        size = round(largest * RAREST ** (rank / max(len(ranked) - 1, 1)))
        kept.append(_own(labels, k, rng)[: max(1, size)])
    return rng.permutation(np.concatenate(kept))


def _own(labels: Ints, k: int, rng: np.random.Generator) -> Ints:
    """Return the images of a class in random order."""
    return rng.permutation(np.flatnonzero(labels == k))


ORDERS: Mapping[str, Callable[[Ints, int], Ints]] = {
    "given": given,
    "shuffle": shuffle,
    "class-sequential": class_sequential,
    "dirichlet": dirichlet,
    "dominant": dominant,
    "geometric": geometric,
}
BLIND = ("given", "shuffle")  # these need no labels


def stream_order(name: str, images: int, seed: int, labels: Ints | None = None, limit: int | None = None) -> Ints:
    """Return the positions of the images in the order of their arrival, the first `limit` of them."""
    if name not in ORDERS:
        raise unknown_name("order", name, ORDERS)
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")
    if limit is not None and limit < 1:
        raise InputError(f"the limit must be at least 1; given {limit}.")
    if labels is None:
        if name not in BLIND:
            raise InputError(f"the order {name!r} arranges images by label, and this pack has none.")
        labels = np.zeros(images, np.int64)
    return ORDERS[name](np.asarray(labels), seed)[:limit]
