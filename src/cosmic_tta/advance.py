"""A step of one space in one compiled call, where a new graph follows the sample.

What `Space` and `HyperClasses` do part by part, in the same order and with the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.atoms import MOST_SAMPLES
from cosmic_tta.core import Task
from cosmic_tta.hyperclass import HyperClasses, Nearest
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array, Bools
from cosmic_tta.space import Nodes, Space


class Offer(NamedTuple):
    """A sample for a class, how sure it is, and its number in the stream."""

    feature: Array
    label: int
    entropy: float
    sample: int


# How a graph is built and what its hyper-classes are asked: control, value and pairs (see `search`), common neighbours,
# most cliques, most looks; ratio, whether it is rounded up, factor and sharpness of the scores.
Wanted = tuple[int, float, int, int, int, int, float, bool, float, float]


class Advanced(NamedTuple):
    """What a space says after such a step."""

    hyper: HyperClasses
    nearest: Nearest
    probabilities: Array  # [K] of the cache alone
    near: Array  # [K, L] products of the slots with the image, until the next step


def attending_nodes(space: Space) -> Nodes | None:
    """Return the nodes of a space whose centres attend, if the next graph can be built in one call."""
    nodes = space.nodes
    atoms = None if nodes is None else nodes.atoms
    if nodes is None or atoms is None or atoms.used - len(atoms.texts) >= MOST_SAMPLES:
        return None
    if nodes.stale:
        nodes.meet(space.rule, space.memory)
    atoms.make_room(atoms.used + 1)
    return nodes


def mean_nodes(space: Space) -> Nodes | None:
    """Return the nodes of a space whose centres are means, if the next graph can be built in one call."""
    nodes = space.nodes
    if nodes is None or nodes.similarity.kept is None:
        return None
    if nodes.stale:
        nodes.update(space.rule, space.memory, None)
    return nodes


def advance_attending(
    space: Space, nodes: Nodes, task: Task, offer: Offer, query: Array, text_dots: Array, wanted: Wanted
) -> Advanced | None:
    """Let a space of texts and attending centres take a sample; None if it does not, then nothing has changed."""
    memory, atoms, similarity = space.memory, nodes.atoms, nodes.similarity
    cache, gram = memory.cache, memory.gram
    assert atoms is not None
    assert gram is not None
    classes = len(cache.count)
    near, cosine = nodes.rooms(cache)
    weights = space.mixed if len(space.mixed) else np.empty(gram.shape[:2], np.float32)
    probabilities, inliers = np.empty(classes, np.float32), np.empty(2 * classes, bool)
    scores = np.empty(2 * classes, np.float32)
    told = COMPILED.advance_attending(
        cache.slots, cache.entropy, cache.sample, cache.count, space.rule.text, gram,
        atoms.texts, atoms.places, atoms.products, atoms.shares, similarity.kept,
        offer.feature, query, text_dots, task.text_length, near, weights, cosine, probabilities, inliers, scores,
        offer.label, offer.entropy, offer.sample, atoms.used, space.rule.sharpness, task.logit_scale,
        similarity.floor, *wanted,
    )  # fmt: skip
    if told is None:
        return None
    _, atoms.used, similarity.floor, *found = told
    nodes.written = False
    hyper, nearest = _read(found, inliers, scores)
    space.settle_on(hyper, weights)
    return Advanced(hyper, nearest, probabilities, near)


def advance_mean(space: Space, nodes: Nodes, offer: Offer, wanted: Wanted) -> Advanced | None:
    """Let a space of plain means take a sample; None if it does not, then nothing has changed."""
    memory, similarity = space.memory, nodes.similarity
    cache = memory.cache
    classes = len(cache.count)
    near, cosine = nodes.rooms(cache)
    votes, inliers, scores = np.empty(classes, np.float32), np.empty(classes, bool), np.empty(classes, np.float32)
    told = COMPILED.advance_mean(
        cache.slots, cache.entropy, cache.sample, cache.count, memory.centres, memory.nodes,
        similarity.features, similarity.panels, similarity.kept, offer.feature, near, votes, cosine, inliers, scores,
        offer.label, offer.entropy, offer.sample, similarity.floor, *wanted,
    )  # fmt: skip
    if told is None:
        return None
    _, _, similarity.floor, *found = told
    hyper, nearest = _read(found, inliers, scores)
    space.settle_on(hyper, None)
    return Advanced(hyper, nearest, votes, near)


def _read(found: list[Any], inliers: Bools, scores: Array) -> tuple[HyperClasses, Nearest]:
    nodes, sizes, shares, complete, affinities, keep = found
    array = np.frombuffer
    hyper = HyperClasses(array(nodes, np.int64), array(sizes, np.int64), array(shares, np.float32), complete)
    return hyper, Nearest(array(affinities, np.float32), keep, inliers, scores)
