"""COSMIC (CVPR 2025): caches → class graphs → cliques as hyper-classes → inlier classes → fused prediction.

Huang et al., "COSMIC: Clique-Oriented Semantic Multi-space Integration for Robust CLIP Test-Time Adaptation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from cosmic_tta.cliques import MAX_CLIQUES, maximal_cliques
from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.errors import SnapshotError
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.graph import degeneracy_threshold, degree_threshold, first_order, grown_threshold, second_order
from cosmic_tta.hyperclass import CentreKind, ClassMemory, HyperClasses, Rounding
from cosmic_tta.ops import Array, Bools, Ints, affinity, confident_look, logits_entropy, softmax, unit
from cosmic_tta.parameters import LARGE, param

# A preset says all that it depends on, so that a change of our default leaves it alone.
PAPER: Mapping[str, Any] = {
    "confident": 0.1,
    "stored": "plain",
    "shots": 8,
    "aux_shots": 8,
    "centre": "attention",
    "aux_centre": "mean",
    "attention_beta": 5.5,
    "text_slot": False,
    "aux_label": "clip",
    "aux_cache": False,
    "unit_aux_centres": True,
    "graph": "threshold",
    "threshold": 0.85,
    "aux_threshold": 0.2,
    "growth": 1e-5,
    "order": 2,
    "common": 1,
    "rebuild": "always",
    "ratio": 0.2,
    "rounding": "ceil",
    "cosine": True,
    "score": "softmax",
    "empty_scores": False,
    "weights": (1.0, 1.0, 1.0),
}
OFFICIAL: Mapping[str, Any] = {
    "confident": 0.1,
    "stored": "confident",
    "shots": 8,
    "aux_shots": 8,
    "centre": "attention",
    "aux_centre": "mean",
    "attention_beta": 5.5,
    "text_slot": True,
    "aux_label": "joint",
    "aux_cache": True,
    "unit_aux_centres": False,
    "graph": "degree",
    "degree": 4.0,
    "aux_degree": 5.0,
    "order": 2,
    "common": 2,
    "rebuild": "scheduled",
    "rebuild_every": 100,
    "ratio": 0.2,
    "rounding": "floor",
    "cosine": False,
    "score": "exponential",
    "alpha": 2.0,
    "beta": 5.0,
    "empty_scores": True,
    "weights": (1.0, 1.0, 1.0),
}


@dataclass
class Space:
    """One feature space of a stream: its memory and the hyper-classes of its last graph."""

    memory: ClassMemory
    hyper: HyperClasses


@dataclass
class CosmicState(State):
    """Both spaces; the auxiliary one is None in a stream without auxiliary features."""

    css: Space
    afv: Space | None

    def validate(self) -> None:
        """Refuse hyper-classes of nodes that the graphs do not have."""
        super().validate()
        for space, nodes in ((self.css, 2 * self.task.classes), (self.afv, self.task.classes)):
            built = space is not None and (self.seen > 0 or len(space.hyper) > 0)
            if built and not np.array_equal(np.unique(space.hyper.nodes), np.arange(nodes)):  # type: ignore[union-attr]
                raise SnapshotError("saved hyper-classes do not cover their graph; the file is damaged.")


class Rule(NamedTuple):
    """The parameters that one space has for itself."""

    shots: int
    centre: CentreKind
    threshold: float
    degree: float
    degeneracy: int


class Branch(NamedTuple):
    """What one space says of one image, node by node, and how it came to it."""

    scores: Array  # [n]
    inliers: Bools  # [n]
    hyper: HyperClasses
    selected: Ints  # the nearest hyper-classes, nearest first
    affinities: Array  # of the selected


@final
@dataclass(frozen=True)
class Cosmic(Method[CosmicState]):
    """Clique-oriented adaptation in two feature spaces.

    CSS, the CLIP space, has 2K nodes: the K texts, then the K visual centres. AFV, the auxiliary space,
    has K nodes: the visual centres. Parameters that begin with `aux_` are AFV's; without an auxiliary
    feature COSMIC runs on CSS alone.

    Presets: `official` is the authors' published program, step by step, with fixed weights (the authors
    picked two of them on test labels). `paper` is the equations as printed; what they leave open is read
    so: the plain view is stored, both caches admit by the same pseudo-label and entropy, centres have no
    text slot and unit length, a graph has no self-loops and is rebuilt in every step, an edge of second
    order has at least one common neighbour, the affinity to a hyper-class is a true cosine, scores are a
    softmax at the logit scale, then masked and not renormalised, and a class without samples has no
    visual node. `default` is ours, one setting for all data, no label ever seen: the paper's scores, which put
    the branches on a common scale, over graphs of bounded degeneracy (so the clique search is bounded too)
    that are rebuilt when a cache changes, and a milder mask.
    """

    name: ClassVar[str] = "cosmic"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}, "official": OFFICIAL, "paper": PAPER}

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    stored: Literal["plain", "confident"] = param("plain", "what is cached: the plain view, or the mean of the kept")
    shots: int = param(8, "slots a class in the CLIP cache", range=(1, LARGE))
    aux_shots: int = param(8, "slots a class in the auxiliary cache", range=(1, LARGE))
    aux_label: Literal["clip", "joint"] = param("clip", "who labels for AFV: the views, or zero-shot + CLIP cache")
    aux_cache: bool = param(False, "report the auxiliary cache's own prediction too; it takes no part in the sum")
    centre: CentreKind = param("attention", "how a class's CLIP centre is made")
    aux_centre: CentreKind = param("mean", "how a class's auxiliary centre is made")
    attention_beta: float = param(5.5, "sharpness of the attention to slots", range=(0, 40))
    ema_decay: float = param(0.9, "how much of an `ema` centre stays", range=(0, 1))
    text_slot: bool = param(False, "the text takes part in its class's CLIP centre as one slot more")
    unit_aux_centres: bool = param(True, "auxiliary centres have unit length")
    graph: Literal["threshold", "degree", "degeneracy"] = param("degeneracy", "what controls the graph's density")
    threshold: float = param(0.85, "CSS: similarity above which two nodes are neighbours", range=(-1, 1))
    aux_threshold: float = param(0.2, "AFV: the same", range=(-1, 1))
    growth: float = param(1e-5, "how much the thresholds grow with each sample, up to 1", range=(0, LARGE))
    degree: float = param(4.0, "CSS: target mean degree", range=(0, LARGE))
    aux_degree: float = param(5.0, "AFV: target mean degree", range=(0, LARGE))
    degeneracy: int = param(4, "CSS: largest core number allowed", range=(0, LARGE))
    aux_degeneracy: int = param(4, "AFV: largest core number allowed", range=(0, LARGE))
    order: Literal[1, 2] = param(2, "cliques are sought in the first- or the second-order graph")
    common: int = param(1, "common neighbours that an edge of second order needs", range=(0, LARGE))
    rebuild: Literal["always", "scheduled"] = param("scheduled", "graphs in every step, or on changes, then seldom")
    rebuild_every: int = param(100, "`scheduled`: steps between graphs after the first K·shots", range=(1, LARGE))
    max_cliques: int = param(MAX_CLIQUES, "past this many cliques a graph falls back to one a node", range=(1, LARGE))
    ratio: float = param(0.4, "share of the hyper-classes that select the inliers", range=(0, 1))
    rounding: Rounding = param("ceil", "how that share becomes a number; never below one")
    cosine: bool = param(True, "affinity to a hyper-class is a cosine; else the dot product with its mean")
    score: Literal["softmax", "exponential"] = param("softmax", "what an inlier node scores")
    empty_scores: bool = param(False, "a class without samples can score as a zero row")
    alpha: float = param(2.0, "`exponential`: factor", range=(0, LARGE))
    beta: float = param(5.0, "`exponential`: sharpness", range=(0, LARGE))
    weights: tuple[float, float, float] = param((1.0, 1.0, 1.0), "of zero-shot, CSS and AFV", range=(0, LARGE))

    @property
    def css_rule(self) -> Rule:
        """The CLIP space's own parameters."""
        return Rule(self.shots, self.centre, self.threshold, self.degree, self.degeneracy)

    @property
    def afv_rule(self) -> Rule:
        """The auxiliary space's own parameters."""
        return Rule(self.aux_shots, self.aux_centre, self.aux_threshold, self.aux_degree, self.aux_degeneracy)

    def _init(self, task: Task) -> CosmicState:
        def space(rule: Rule, dim: int) -> Space:
            return Space(ClassMemory.empty(task.classes, rule.shots, dim, rule.centre), HyperClasses.empty(dim))

        afv = None if task.aux_dim is None else space(self.afv_rule, task.aux_dim)
        return CosmicState(task, seen=0, css=space(self.css_rule, task.dim), afv=afv)

    def _predict(self, state: CosmicState, sample: Sample, *, learn: bool) -> Prediction:
        task, query = state.task, sample.plain
        scale = np.float32(task.logit_scale)

        # Zero-shot, the confident views, the pseudo-label.
        views = softmax(scale * (sample.clip @ task.unit_text.T))  # [V, K]
        zero_shot = views[0]
        look = confident_look(views, self.confident)
        label, surprise = look.label, look.entropy

        # CSS: the sample enters the CLIP cache; texts and visual centres answer.
        memory, changed = state.css.memory, False
        if learn:
            feature = query if self.stored == "plain" else unit(sample.clip[look.kept].mean(axis=0))
            changed = memory.learn(self.centre, self.ema_decay, label, feature, surprise, state.seen)
        text_slot = task.unit_text if self.text_slot else None
        centres = unit(memory.centres_for(query, self.attention_beta, text_slot))  # [K, D]
        clip_cache = softmax(scale * (centres @ query))
        seen_classes = (memory.cache.count > 0) | self.empty_scores | self.text_slot
        nodes = np.concatenate([task.text, centres])  # [2K, D]
        there = np.concatenate([np.ones(task.classes, bool), seen_classes])
        css = self._branch(state, state.css, self.css_rule, nodes, there, query, changed, learn)
        css_scores = (css.scores[: task.classes] + css.scores[task.classes :]) / 2
        parts = {"zero_shot": zero_shot, "clip_cache": clip_cache, "css": css_scores}
        mixed = np.float32(self.weights[0]) * zero_shot + np.float32(self.weights[1]) * css_scores
        branches = {"css": (state.css, css, query)}

        # AFV: the same with the auxiliary feature, without texts.
        if state.afv is not None and sample.aux is not None:
            memory, changed, query = state.afv.memory, False, sample.aux
            if learn:
                if self.aux_label == "joint":
                    joint = zero_shot + clip_cache
                    label, surprise = int(joint.argmax()), float(logits_entropy(joint))
                changed = memory.learn(self.aux_centre, self.ema_decay, label, query, surprise, state.seen)
            if self.aux_cache:
                near = affinity(memory.cache.slots @ query, self.beta) * memory.cache.filled()  # [K, L]
                parts["aux_cache"] = softmax(np.float32(self.alpha) * near.sum(axis=1))
            centres = memory.centres_for(query, self.attention_beta)  # [K, E]
            nodes = unit(centres) if self.unit_aux_centres else centres
            there = (memory.cache.count > 0) | (self.empty_scores & memory.cache.count.any())
            afv = self._branch(state, state.afv, self.afv_rule, nodes, there, query, changed, learn)
            parts["afv"] = afv.scores
            mixed = mixed + np.float32(self.weights[2]) * afv.scores
            branches["afv"] = (state.afv, afv, query)

        total = mixed.sum()
        scores = zero_shot if total == 0 else mixed / total  # where nothing weighs, zero-shot answers
        return Prediction(scores, parts, self._explain(task, int(scores.argmax()), branches))

    def _branch(
        self, state: CosmicState, space: Space, rule: Rule, nodes: Array, there: Bools, query: Array, changed: bool,
        learn: bool,
    ) -> Branch:  # fmt: skip
        """Score a space's nodes for the query; with `learn`, keep the graph if it is time for a new one."""
        if not there.any():  # a peek before the first sample
            none = np.zeros(0, np.int64)
            return Branch(np.zeros(len(nodes), np.float32), there, space.hyper, none, none.astype(np.float32))
        hyper = space.hyper
        if self._due(state, rule, changed) if learn else (self.rebuild == "always" or not len(hyper)):
            hyper = self._hyper_classes(nodes, there, rule, state.seen)
            if learn:
                space.hyper = hyper
        selected, affinities = hyper.nearest(query, self.ratio, self.rounding)
        inliers = hyper.inliers(selected, len(nodes)) & there

        cosine = nodes @ query  # [n]
        if self.score == "exponential":
            scores = np.float32(self.alpha) * affinity(cosine, self.beta)
        else:
            logits = np.where(there, np.float32(state.task.logit_scale) * cosine, -np.inf).astype(np.float32)
            scores = softmax(logits)
        return Branch(scores * inliers, inliers, hyper, selected, affinities)

    def _due(self, state: CosmicState, rule: Rule, changed: bool) -> bool:
        if self.rebuild == "always":
            return True
        if state.seen <= state.task.classes * rule.shots:
            return changed
        return state.seen % self.rebuild_every == 0

    def _hyper_classes(self, nodes: Array, there: Bools, rule: Rule, seen: int) -> HyperClasses:
        """Build the graph of the nodes that are there; one that is not stays alone."""
        present = np.flatnonzero(there)
        features = unit(nodes[present]) if self.cosine else nodes[present]
        similarity = features @ features.T  # [n, n]
        if self.graph == "threshold":
            threshold = grown_threshold(rule.threshold, self.growth, seen)
        elif self.graph == "degree":
            threshold = degree_threshold(similarity, rule.degree)
        else:
            threshold = degeneracy_threshold(similarity, rule.degeneracy)
        graph = first_order(similarity, threshold)
        if self.order == 2:
            graph = second_order(graph, self.common)
        cliques, complete = maximal_cliques(graph, self.max_cliques)
        if len(present) < len(nodes):
            lonely = [(int(node),) for node in np.flatnonzero(~there)]
            cliques = sorted(lonely + [tuple(int(present[place]) for place in clique) for clique in cliques])
        return HyperClasses.of(cliques, nodes, cosine=self.cosine, complete=complete)

    def _explain(
        self, task: Task, answer: int, branches: Mapping[str, tuple[Space, Branch, Array]]
    ) -> Callable[[], Explanation]:
        # The caches go on changing, so the answer's slots are copied now; all else is frozen.
        kept = {
            name: (space.memory.cache.slots[answer].copy(), space.memory.cache.sample[answer].copy())
            for name, (space, _, _) in branches.items()
        }

        def explain() -> Explanation:
            names = task.class_names
            node_names = {"afv": names, "css": [f"{n} (text)" for n in names] + [f"{n} (images)" for n in names]}
            told = Explanation()
            for name, (_, branch, query) in branches.items():
                inside = branch.inliers.reshape(-1, task.classes).any(axis=0)  # [K]
                near = affinity(kept[name][0] @ query, self.attention_beta)
                chosen = branch.hyper.describe(branch.selected, branch.affinities, node_names[name])
                told.hyper_classes[name], told.complete[name] = chosen, branch.hyper.complete
                told.inliers[name] = tuple(names[k] for k in np.flatnonzero(inside))
                told.votes[name] = votes(names[answer], kept[name][1], near)
            return told

        return explain
