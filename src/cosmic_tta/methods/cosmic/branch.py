"""One branch of COSMIC: a sample enters the cache of a feature space, and the space scores it through its graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, class_probabilities
from cosmic_tta.methods.cosmic.feature_space import CacheCandidate, GraphSpace, PrototypeScores, Rebuild
from cosmic_tta.methods.cosmic.graph.cliques import cliques_of
from cosmic_tta.methods.cosmic.graph.density import Density, grown_threshold
from cosmic_tta.methods.cosmic.hyperclasses import ExponentialScore, HyperClasses, NearestHyperClasses, Rounding
from cosmic_tta.methods.cosmic.lookahead import CachedLookups


@dataclass(frozen=True)
class BranchConfig:
    """The parameters of one branch, as `Cosmic` has them under the same names."""

    shots: int
    graph: Literal["threshold", "degree", "degeneracy"]
    threshold: float
    growth: float
    degree: float
    degeneracy: int
    common: int | None  # None: the first-order graph
    max_cliques: int
    rebuild: Literal["always", "scheduled"]
    rebuild_every: int
    ratio: float
    rounding: Rounding
    score: Literal["softmax", "exponential"]
    alpha: float
    beta: float
    empty_scores: bool
    slot_products: bool = False  # whether the products of the slots with the query are reported in any case

    def density(self, seen: int) -> Density:
        """Return the density of the graph after `seen` samples."""
        if self.graph == "threshold":
            return Density("threshold", grown_threshold(self.threshold, self.growth, seen))
        return Density(self.graph, self.degree if self.graph == "degree" else self.degeneracy)

    def rebuild_rule(self, classes: int, seen: int) -> Rebuild:
        """Return when the learning step after `seen` samples builds a new graph."""
        if self.rebuild == "always":
            return Rebuild.ALWAYS
        if seen <= classes * self.shots:
            return Rebuild.ON_CHANGE
        return Rebuild.ALWAYS if seen % self.rebuild_every == 0 else Rebuild.NEVER


class BranchQuery(NamedTuple):
    """An image in one feature space, and what the stream knows about it."""

    lookups: CachedLookups
    seen: int  # samples before it
    logit_scale: float
    text_dots: Array | None = None  # [K] its products with the unit class texts; None: no text nodes
    text_cosine: Array | None = None  # [K] its products with the text nodes


class BranchResult(NamedTuple):
    """The scores of a space's nodes for one image, and how they came about."""

    scores: Array  # [n]
    hyperclasses: HyperClasses
    nearest: NearestHyperClasses
    slot_products: Array | None  # [K, L] of the slots with the image, where they were looked up
    prototype_cosine: Array | None = None  # [K] of the visual prototypes with the image; None after a fused step


class CssPrediction(NamedTuple):
    """The predictions of the CLIP space, and its pseudo-label for the auxiliary space."""

    zero_shot: Array  # [K]
    clip_cache: Array  # [K]
    branch: BranchResult
    label: int
    entropy: float


def score_branch(
    space: GraphSpace, query: BranchQuery, candidate: CacheCandidate | None, config: BranchConfig
) -> BranchResult:
    """Let a sample enter a space's cache, and score the image on the space's graph.

    Args:
        space: The feature space; only learning changes it.
        query: The image.
        candidate: The sample that enters the cache; None: score without learning.
        config: The branch's parameters.

    Returns:
        The scores of the space's nodes: texts first, if the space has text nodes, then visual prototypes.
    """
    # The cache.
    if candidate is None:
        new_graph = config.rebuild == "always" or not len(space.hyperclasses)
    else:
        rebuild = config.rebuild_rule(len(space.memory.cache.count), query.seen)
        taken = space.learn(query.lookups, candidate, rebuild)
        new_graph = rebuild is Rebuild.ALWAYS or (rebuild is Rebuild.ON_CHANGE and taken)

    # The prototypes.
    prototypes = space.query(query.lookups, query.text_dots, slots=config.slot_products)
    cosine = prototypes.cosine
    if query.text_cosine is not None:
        cosine = np.concatenate([query.text_cosine, cosine])  # [2K]
    present = present_nodes(space, config, query.seen)
    present_count = np.count_nonzero(present)
    if not present_count:  # before the first sample
        nothing = np.zeros(len(cosine), np.float32)
        nearest = NearestHyperClasses(nothing[:0], 0, present, nothing)
        return BranchResult(nothing, space.hyperclasses, nearest, prototypes.slot_products, prototypes.cosine)

    # The graph and its hyper-classes: new ones, or those of the last graph, with the nodes as they were then.
    if new_graph:
        hyperclasses = _build_graph(space, query, prototypes, present, config, learn=candidate is not None)
        graph_cosine = cosine
    else:
        hyperclasses = space.hyperclasses
        graph_cosine = space.similarity_to_frozen_nodes(query.lookups, cosine, learn=candidate is not None)

    # The nearest hyper-classes select the inliers, and the inliers score.
    score = ExponentialScore(cosine, config.alpha, config.beta) if config.score == "exponential" else None
    nearest = hyperclasses.nearest(graph_cosine, config.ratio, config.rounding, score)
    scores = nearest.scores
    if scores is None:
        scores = np.zeros(len(cosine), np.float32)
        scores[present] = class_probabilities(cosine[present], query.logit_scale)
        scores *= nearest.inliers
    if present_count < len(present):
        nearest, scores = nearest._replace(inliers=nearest.inliers & present), scores * present
    return BranchResult(scores, hyperclasses, nearest, prototypes.slot_products, prototypes.cosine)


def present_nodes(space: GraphSpace, config: BranchConfig, seen: int) -> Bools:
    """Return which nodes of a space take part, [n]; a class without samples may have no visual node. Read-only."""
    count, has_texts = space.memory.cache.count, space.config.texts is not None
    if config.empty_scores if has_texts else config.empty_scores and (seen or count.any()):
        return _all_present(len(count) * (1 + has_texts))
    if not has_texts:
        return count > 0
    if space.config.prototypes.text is not None:
        return _all_present(2 * len(count))
    return np.concatenate([_all_present(len(count)), count > 0])


@lru_cache(maxsize=64)
def _all_present(nodes: int) -> Bools:
    """Return a mask of all nodes, the same one for every step."""
    mask = np.ones(nodes, bool)
    mask.flags.writeable = False
    return mask


def _build_graph(
    space: GraphSpace, query: BranchQuery, prototypes: PrototypeScores, present: Bools, config: BranchConfig,
    *, learn: bool,
) -> HyperClasses:  # fmt: skip
    """Build the graph of the present nodes and return its hyper-classes; with `learn`, the space keeps them."""
    nodes = space.take_nodes(prototypes.attention)
    cliques = cliques_of(nodes.similarity, config.density(query.seen), present, config.common, config.max_cliques)
    hyperclasses = HyperClasses.from_cliques(cliques, nodes.rows, cosine=space.config.cosine)
    if learn:
        space.commit_graph(query.lookups, hyperclasses, nodes, prototypes.attention)
    space.return_nodes(nodes)
    return hyperclasses
