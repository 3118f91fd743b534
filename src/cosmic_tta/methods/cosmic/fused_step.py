"""COSMIC's learning step in compiled calls, one per space, where a new graph follows the sample.

The results are bit-equal to `score_branch`, which makes the same step in parts. Compiled:
`fused_css_step` and `fused_afv_step` in kernel/cosmic/fused_step.c, `capsule` in kernel/cosmic/fused_step_config.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.types import Sample, Task
from cosmic_tta.methods.cosmic.branch import BranchConfig, BranchResult
from cosmic_tta.methods.cosmic.feature_space import GraphSpace
from cosmic_tta.methods.cosmic.graph.cliques import clique_search
from cosmic_tta.methods.cosmic.graph.gram_cache import MAX_SAMPLES
from cosmic_tta.methods.cosmic.graph_nodes import GraphNodes
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses, NearestHyperClasses

# Rows of the outputs [8, K]. The scores of the CSS nodes, texts then prototypes, take two rows.
ZERO_SHOT, CLIP_CACHE, CSS_NODES, AUX_CACHE, AFV, CSS, SCORES, ROWS = 0, 1, slice(2, 4), 4, 5, 6, 7, 8


class GraphQuery(NamedTuple):
    """How the graph of a space is built, and how its nearest cliques score: the kernel's struct of this name."""

    control: int  # these six as in `CliqueSearch`
    value: float
    pairs: int
    common: int
    max_cliques: int
    max_visits: int
    ratio: float  # share of the cliques that select the inliers
    round_up: bool
    factor: float  # of an inlier's score
    sharpness: float

    @classmethod
    def of(cls, config: BranchConfig, nodes: int, seen: int) -> GraphQuery:
        """Make the query of a branch whose graph has so many nodes, after `seen` samples."""
        search = clique_search(config.density(seen), nodes, config.common, config.max_cliques)
        return cls(*search, config.ratio, config.rounding == "ceil", config.alpha, config.beta)


@dataclass(frozen=True)
class FusedStepConfig:
    """The parameters of a fused step, and the kernel's structs of them."""

    confident: float  # share of the views
    store_plain: bool  # cache the plain view, not the mean of the confident views
    joint_label: bool  # zero-shot and the CLIP cache together label the sample for AFV
    attention_sharpness: float
    weights: tuple[float, float, float]  # of zero-shot, CSS, AFV
    css: BranchConfig
    afv: BranchConfig
    _capsules: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by class count

    def capsule(self, classes: int, seen: int) -> Any:
        """Return the kernel's struct, made once per class count, or per step if the graphs' threshold grows."""
        capsule = self._capsules.get(classes)
        if capsule is None:
            capsule = COMPILED.fused_step_config(
                self.confident, self.store_plain, self.joint_label, self.attention_sharpness, self.weights,
                GraphQuery.of(self.css, 2 * classes, seen), GraphQuery.of(self.afv, classes, seen),
            )  # fmt: skip
            if self.css.graph != "threshold":
                self._capsules[classes] = capsule
        return capsule


class CssStep(NamedTuple):
    """The step of the CLIP space, and the pseudo-label it has for the auxiliary space."""

    outputs: Array  # [8, K]
    hyperclasses: HyperClasses
    nearest: NearestHyperClasses
    slot_products: Array  # [K, L] with the image; the next step overwrites them
    label: int  # for AFV
    entropy: float

    @property
    def zero_shot(self) -> Array:
        """The zero-shot prediction, [K]."""
        row: Array = self.outputs[ZERO_SHOT]
        return row

    @property
    def clip_cache(self) -> Array:
        """The prediction of the CLIP cache alone, [K]."""
        row: Array = self.outputs[CLIP_CACHE]
        return row

    @property
    def branch(self) -> BranchResult:
        """The step as the result of the CSS branch."""
        nodes = self.outputs[CSS_NODES].reshape(-1)
        return BranchResult(nodes, self.hyperclasses, self.nearest, self.slot_products)


class AfvStep(NamedTuple):
    """The step of the auxiliary space; the outputs of the CSS step then hold all branches and the fused scores."""

    outputs: Array  # [8, K]
    hyperclasses: HyperClasses
    nearest: NearestHyperClasses
    slot_products: Array
    label: int  # the predicted class

    @property
    def scores(self) -> Array:
        """The fused scores, [K]."""
        row: Array = self.outputs[SCORES]
        return row

    @property
    def parts(self) -> dict[str, Array]:
        """The branches, [K] each."""
        rows = self.outputs
        return {
            "zero_shot": rows[ZERO_SHOT], "clip_cache": rows[CLIP_CACHE], "css": rows[CSS],
            "aux_cache": rows[AUX_CACHE], "afv": rows[AFV],
        }  # fmt: skip


def fused_css_step(space: GraphSpace, task: Task, sample: Sample, seen: int, capsule: Any) -> CssStep | None:
    """Select the confident views of a sample, and make the learning step of the CLIP space.

    Returns:
        None if one call cannot do it, or the cache does not take the sample; then the space has not changed.
    """
    nodes = _attending_nodes(space)
    if nodes is None:
        return None
    memory, cache, similarity, views = space.memory, space.memory.cache, nodes.similarity, sample.clip
    gram, gram_cache = memory.gram, nodes.gram_cache
    assert gram is not None
    assert gram_cache is not None
    outputs = np.empty((ROWS, len(cache.count)), np.float32)
    weights, products = np.empty(gram.shape[:2], np.float32), nodes.slot_products(cache)
    result = COMPILED.fused_css_step(
        capsule,
        (cache.slots, cache.entropy, cache.sample, cache.count),
        (space.config.prototypes.text, gram),
        (gram_cache.texts, gram_cache.row_of_slot, gram_cache.products, gram_cache.text_scales, similarity.kept),
        (views, task.text_length),
        (nodes.text_dots(len(views)), products, weights, outputs),
        seen, gram_cache.used, task.logit_scale, similarity.floor,
    )  # fmt: skip
    if result is None:
        return None
    label, entropy, gram_cache.used, graph = result
    nodes.rows_current = False
    hyperclasses, nearest, similarity.floor = _read_graph(*graph)
    space.commit_hyperclasses(hyperclasses, weights)
    return CssStep(outputs, hyperclasses, nearest, products, label, entropy)


def fused_afv_step(space: GraphSpace, aux: Array, seen: int, capsule: Any, css: CssStep) -> AfvStep | None:
    """Make the learning step of the auxiliary space, and fuse the branches. Returns None as `fused_css_step` does."""
    nodes = _mean_nodes(space)
    if nodes is None:
        return None
    memory, cache, similarity = space.memory, space.memory.cache, nodes.similarity
    products = nodes.slot_products(cache)
    result = COMPILED.fused_afv_step(
        capsule,
        (cache.slots, cache.entropy, cache.sample, cache.count),
        (memory.centres, memory.nodes, similarity.features, similarity.panels, similarity.kept),
        aux,
        (products, css.outputs),
        css.label, css.entropy, seen, similarity.floor,
    )  # fmt: skip
    if result is None:
        return None
    label, graph = result
    hyperclasses, nearest, similarity.floor = _read_graph(*graph)
    space.commit_hyperclasses(hyperclasses, None)
    return AfvStep(css.outputs, hyperclasses, nearest, products, label)


def _attending_nodes(space: GraphSpace) -> GraphNodes | None:
    """Return the nodes of a space whose prototypes attend, if the next graph can be built in one call."""
    nodes = space.nodes
    gram_cache = None if nodes is None else nodes.gram_cache
    if nodes is None or gram_cache is None or gram_cache.used - len(gram_cache.texts) >= MAX_SAMPLES:
        return None
    if nodes.changed:
        nodes.sync_gram_cache(space.config.prototypes, space.memory)
    gram_cache.make_room(gram_cache.used + 1)
    return nodes


def _mean_nodes(space: GraphSpace) -> GraphNodes | None:
    """Return the nodes of a space whose prototypes are means, if the next graph can be built in one call."""
    nodes = space.nodes
    if nodes is None or nodes.similarity.kept is None:
        return None
    if nodes.changed:
        nodes.update(space.config.prototypes, space.memory, None)
    return nodes


def _read_graph(
    floor: float, nodes: bytes, sizes: bytes, shares: bytes, complete: bool,
    affinities: bytes, keep: int, inliers: bytes,
) -> tuple[HyperClasses, NearestHyperClasses, float]:  # fmt: skip
    """Return the kernel's graph as hyper-classes, the nearest of them, and the floor for the next graph."""
    read = np.frombuffer
    hyperclasses = HyperClasses(read(nodes, np.int64), read(sizes, np.int64), read(shares, np.float32), complete)
    return hyperclasses, NearestHyperClasses(read(affinities, np.float32), keep, read(inliers, bool), None), floor
