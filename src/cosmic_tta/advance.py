"""COSMIC's step in compiled calls, one a space, where a new graph follows the sample.

What `Space` and `HyperClasses` do part by part, in the same order and with the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.account import Account
from cosmic_tta.atoms import MOST_SAMPLES
from cosmic_tta.cliques import LOOKS_PER_CLIQUE, search
from cosmic_tta.core import Sample, Task
from cosmic_tta.graph import Density
from cosmic_tta.hyperclass import HyperClasses
from cosmic_tta.kernel import COMPILED
from cosmic_tta.ops import Array
from cosmic_tta.space import Nodes, Space

# Rows of what is said of an image, [8, K]; the scores of CSS's nodes, texts and centres, are two of them.
ZERO_SHOT, CLIP_CACHE, CSS_NODES, AUX_CACHE, AFV, CSS, SCORES, ROWS = 0, 1, slice(2, 4), 4, 5, 6, 7, 8

# How a graph is built and what its hyper-classes are asked: control, value and pairs (see `search`), common neighbours,
# most cliques, most looks; ratio, whether it is rounded up, factor and sharpness of the scores.
Wanted = tuple[int, float, int, int, int, int, float, bool, float, float]


class Course(NamedTuple):
    """How a method goes about a step."""

    confident: float  # share of the views
    plain: bool  # the plain view is stored, not the mean of the confident ones
    joint: bool  # zero-shot and the CLIP cache together label for AFV
    weights: tuple[float, float, float]
    css: Wanted
    afv: Wanted


def can_advance(method: Any) -> bool:
    """Say whether the kernel can make a learning step of either space in one call, by COSMIC's parameters."""
    centres = method.centre == "attention" and method.text_slot and method.aux_centre == "mean"
    plain = not (method.unit_aux_centres or method.cosine)
    fixed = method.fusion == "fixed" and method.score == "exponential"
    return COMPILED is not None and centres and plain and fixed and method.empty_scores


def course(method: Any, classes: int, css: Density, afv: Density) -> Course:
    """Say for the kernel what COSMIC's parameters, and the densities of both graphs, come down to."""
    common, up = method.common if method.order == 2 else -1, method.rounding == "ceil"
    bounds = (common, method.max_cliques, LOOKS_PER_CLIQUE * method.max_cliques)
    rest = (*bounds, method.ratio, up, method.alpha, method.beta)
    wanted = (*search(css, 2 * classes), *rest), (*search(afv, classes), *rest)
    return Course(method.confident, method.stored == "plain", method.aux_label == "joint", method.weights, *wanted)


class Advanced(NamedTuple):
    """What the CLIP space made of a sample, and what it says to the auxiliary one."""

    said: Array  # [8, K]
    hyper: HyperClasses
    nearest: tuple[bytes, int, bytes]  # affinities, how many are selected, inliers: see `Nearest.read`
    near: Array  # [K, L] products of the slots with the image, until the next step
    label: int  # for AFV
    entropy: float

    @property
    def zero_shot(self) -> Array:
        """What the plain view says, [K]."""
        row: Array = self.said[ZERO_SHOT]
        return row

    @property
    def clip_cache(self) -> Array:
        """What the CLIP cache alone says, [K]."""
        row: Array = self.said[CLIP_CACHE]
        return row

    @property
    def css_nodes(self) -> Array:
        """The scores of texts and centres, [2K]."""
        return self.said[CSS_NODES].reshape(-1)

    def told(self, css: Space, afv: Space, fused: Fused) -> tuple[Array, dict[str, Array], dict[str, Account]]:
        """Return scores, branches, and what explains them."""
        said, answer = self.said, fused.label
        parts = {
            "zero_shot": said[ZERO_SHOT], "clip_cache": said[CLIP_CACHE], "css": said[CSS],
            "aux_cache": said[AUX_CACHE], "afv": said[AFV],
        }  # fmt: skip
        samples, aux_samples = css.memory.cache.sample[answer].copy(), afv.memory.cache.sample[answer].copy()
        accounts = {
            "css": Account(self.hyper, self.nearest, samples, self.near[answer].copy()),
            "afv": Account(fused.hyper, fused.nearest, aux_samples, fused.near[answer].copy()),
        }
        return said[SCORES], parts, accounts


class Fused(NamedTuple):
    """What the auxiliary space made of it; all branches are in `Advanced.said` then."""

    hyper: HyperClasses
    nearest: tuple[bytes, int, bytes]
    near: Array
    label: int  # the answer


def advance_css(space: Space, task: Task, sample: Sample, seen: int, course: Course) -> Advanced | None:
    """Look at a sample, and let the CLIP space take it.

    None if it cannot be in one call, or the memory does not take the sample; then nothing has changed.
    """
    nodes = _attending_nodes(space)
    if nodes is None:
        return None
    memory, atoms, similarity, rule, clip = space.memory, nodes.atoms, nodes.similarity, space.rule, sample.clip
    cache, gram = memory.cache, memory.gram
    assert atoms is not None
    assert gram is not None
    weights = space.mixed if len(space.mixed) else np.empty(gram.shape[:2], np.float32)
    near, views = nodes.near(cache), len(clip)
    said = np.empty((ROWS, len(near)), np.float32)
    told = COMPILED.advance_attending(
        cache.slots, cache.entropy, cache.sample, cache.count, rule.text, gram,
        atoms.texts, atoms.places, atoms.products, atoms.shares, similarity.kept, task.text_length,
        clip, nodes.text_dots(views), near, weights, said,
        max(1, int(course.confident * views)), course.plain, course.joint, seen, atoms.used,
        rule.sharpness, task.logit_scale, similarity.floor, *course.css,
    )  # fmt: skip
    if told is None:
        return None
    label, entropy, atoms.used, found = told
    nodes.written = False
    hyper, nearest, similarity.floor = _read(*found)
    space.settle_on(hyper, weights)
    return Advanced(said, hyper, nearest, near, label, entropy)


def advance_afv(space: Space, aux: Array, seen: int, course: Course, done: Advanced) -> Fused | None:
    """Let the auxiliary space take the sample too, and add up the branches; None as above."""
    nodes = _mean_nodes(space)
    if nodes is None:
        return None
    memory, similarity = space.memory, nodes.similarity
    cache, near = memory.cache, nodes.near(memory.cache)
    told = COMPILED.advance_mean(
        cache.slots, cache.entropy, cache.sample, cache.count, memory.centres, memory.nodes,
        similarity.features, similarity.panels, similarity.kept, aux, near, done.said,
        done.label, done.entropy, seen, *course.weights, similarity.floor, *course.afv,
    )  # fmt: skip
    if told is None:
        return None
    label, found = told
    hyper, nearest, similarity.floor = _read(*found)
    space.settle_on(hyper, None)
    return Fused(hyper, nearest, near, label)


def _attending_nodes(space: Space) -> Nodes | None:
    """Return the nodes of a space whose centres attend, if the next graph can be built in one call."""
    nodes = space.nodes
    atoms = None if nodes is None else nodes.atoms
    if nodes is None or atoms is None or atoms.used - len(atoms.texts) >= MOST_SAMPLES:
        return None
    if nodes.stale:
        nodes.meet(space.rule, space.memory)
    atoms.make_room(atoms.used + 1)
    return nodes


def _mean_nodes(space: Space) -> Nodes | None:
    """Return the nodes of a space whose centres are means, if the next graph can be built in one call."""
    nodes = space.nodes
    if nodes is None or nodes.similarity.kept is None:
        return None
    if nodes.stale:
        nodes.update(space.rule, space.memory, None)
    return nodes


def _read(
    floor: float, nodes: bytes, sizes: bytes, shares: bytes, complete: bool, *nearest: Any
) -> tuple[HyperClasses, tuple[bytes, int, bytes], float]:
    array = np.frombuffer
    hyper = HyperClasses(array(nodes, np.int64), array(sizes, np.int64), array(shares, np.float32), complete)
    return hyper, nearest, floor
