"""The equations of the COSMIC paper, transcribed literally: float64, plain loops, in the order of the paper.

The preset `paper` is compared with it; it shares no code with the package. Besides the answers it returns the
`margin`, the least distance of any discrete decision from its flip, because single and double precision may decide
differently below it. It also returns the `events`: which branches of the method the stream took.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Rows = NDArray[np.float32] | Float
Edges = set[tuple[int, int]]

VIEW_RATIO = 0.1  # R, the share of the views that are kept
VIEW_EPSILON = 1e-6  # in the entropy that ranks the views
ENTROPY_EPSILON = 1e-8  # in H
NOTABLE = 0.01  # an excluded node counts as an event if it would have scored this much


@dataclass(frozen=True)
class Parameters:
    """The paper's symbols, in words."""

    shots: int  # l1, slots per class in the CLIP cache
    aux_shots: int  # l2, slots per class in the auxiliary cache
    ratio: float  # r, the share of the hyper-classes that are selected
    threshold: float = 0.85  # t0 in the CSS space
    aux_threshold: float = 0.20  # t0 in the AFV space
    growth: float = 1e-5  # g
    attention: float = 5.5  # α in φ
    betas: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Answer:
    """The probabilities of one sample, [K] each."""

    zero_shot: Float
    css: Float
    afv: Float | None
    final: Float


@dataclass
class Entry:
    """A cached feature and the entropy H of its sample."""

    feature: Float
    entropy: float


@dataclass
class NaivePaper:
    """One stream: the texts, the parameters, both caches, the margin and the events."""

    texts: Float  # f_t, [K, D]
    logit_scale: float  # 1 / τ
    parameters: Parameters
    seen: int = 0  # i
    margin: float = math.inf
    events: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.classes = len(self.texts)
        self.cache: list[list[Entry]] = [[] for _ in range(self.classes)]
        self.aux_cache: list[list[Entry]] = [[] for _ in range(self.classes)]

    def step(self, views: Float, aux: Float | None) -> Answer:
        """Let one sample enter the caches, then score it."""
        parameters = self.parameters
        w = views[0]

        # Preliminaries: zero-shot prediction, marginal entropy, caches.
        p_zero_shot = self.zero_shot(w)
        p_mean = self.mean_prediction(views)
        label = self.pseudo_label(p_mean)
        h = entropy(p_mean, ENTROPY_EPSILON)
        self.admit(self.cache[label], parameters.shots, w, h, "css")
        if aux is not None:
            self.admit(self.aux_cache[label], parameters.aux_shots, aux, h, "afv")

        # CSS space: the K texts, then the K visual centres.
        nodes: list[Float | None] = [self.texts[k] for k in range(self.classes)]
        nodes += [self.visual_centre(k, w) for k in range(self.classes)]
        p_initial = self.masked_prediction(w, nodes, parameters.threshold, "css")
        p_css = np.zeros(self.classes)
        for k in range(self.classes):
            p_css[k] = (p_initial[k] + p_initial[k + self.classes]) / 2

        # AFV space: the K auxiliary centres.
        p_afv = None
        if aux is not None:
            centres = [self.aux_centre(k) for k in range(self.classes)]
            p_afv = self.masked_prediction(aux, centres, parameters.aux_threshold, "afv")

        beta_1, beta_2, beta_3 = parameters.betas
        p_final = beta_1 * p_zero_shot + beta_2 * p_css
        if p_afv is not None:
            p_final = p_final + beta_3 * p_afv
        self.seen += 1
        return Answer(p_zero_shot, p_css, p_afv, p_final)

    def zero_shot(self, w: Float) -> Float:
        """p^zs of one view."""
        logits = [self.logit_scale * float(w @ unit(self.texts[k])) for k in range(self.classes)]
        return softmax(logits)

    def mean_prediction(self, views: Float) -> Float:
        """p̃, the mean prediction of the views of least entropy."""
        predictions = [self.zero_shot(view) for view in views]
        entropies = [entropy(p, VIEW_EPSILON) for p in predictions]
        order = sorted(range(len(views)), key=lambda j: entropies[j])
        kept = max(1, int(VIEW_RATIO * len(views)))
        if kept < len(views) and self.classes > 1:  # with one class every view predicts the same: one
            self.note_margin(entropies[order[kept]] - entropies[order[kept - 1]])
        total = np.zeros(self.classes)
        for j in order[:kept]:
            total = total + predictions[j]
        return total / kept

    def pseudo_label(self, p_mean: Float) -> int:
        """ŷ, the class of the highest mean probability."""
        label = int(np.argmax(p_mean))
        for k in range(self.classes):
            if k != label:
                self.note_margin(p_mean[label] - p_mean[k])
        return label

    def admit(self, entries: list[Entry], capacity: int, feature: Float, h: float, space: str) -> None:
        """The three cases of the cache equation."""
        if len(entries) < capacity:
            entries.append(Entry(feature, h))
            return
        worst = max(range(capacity), key=lambda j: entries[j].entropy)
        if self.classes > 1:  # with one class every H is the same, exactly, and nothing is ever replaced
            self.note_margin(abs(h - entries[worst].entropy))
        if h < entries[worst].entropy:
            for j in range(capacity):
                if j != worst:
                    self.note_margin(entries[worst].entropy - entries[j].entropy)
            entries[worst] = Entry(feature, h)
            self.events[f"{space}: replacement"] += 1

    def visual_centre(self, k: int, w: Float) -> Float | None:
        """f_v of class k: its cached features, weighted by φ of their cosine with w; then unit."""
        if not self.cache[k]:
            return None
        total = np.zeros(len(w))
        for entry in self.cache[k]:
            total = total + math.exp(-self.parameters.attention * (1 - float(w @ entry.feature))) * entry.feature
        return unit(total)

    def aux_centre(self, k: int) -> Float | None:
        """f_v^aux of class k: the mean of its cached auxiliary features; then unit."""
        if not self.aux_cache[k]:
            return None
        total = np.zeros(len(self.aux_cache[k][0].feature))
        for entry in self.aux_cache[k]:
            total = total + entry.feature
        return unit(total / len(self.aux_cache[k]))

    def masked_prediction(self, w: Float, nodes: Sequence[Float | None], start: float, space: str) -> Float:
        """Softmax(w·fᵀ) ⊙ M over the nodes of one space; None is a class without a visual node."""
        threshold = min(1.0, start + self.parameters.growth * self.seen)
        if threshold == 1.0:
            self.events[f"{space}: threshold at one"] += 1
        first = self.first_order(nodes, threshold)
        second = second_order(first, len(nodes))
        if second != first:
            self.events[f"{space}: edge dropped by the second order"] += 1
        cliques = maximal_cliques(second, len(nodes))
        selected = self.select(w, nodes, cliques, space)
        inliers = {i for clique in selected for i in clique}

        present = [i for i in range(len(nodes)) if nodes[i] is not None]
        prediction = np.zeros(len(nodes))
        if not present:
            return prediction
        logits = []
        for i in present:
            node = nodes[i]
            assert node is not None
            logits.append(self.logit_scale * float(w @ node))
        for i, p in zip(present, softmax(logits), strict=True):
            if i in inliers:
                prediction[i] = p
            elif p >= NOTABLE:
                self.events[f"{space}: node excluded"] += 1

        if any(len(clique) >= 3 for clique in cliques):
            self.events[f"{space}: clique of three or more"] += 1
        if any(len(clique) >= 3 for clique in selected):
            self.events[f"{space}: clique of three or more selected"] += 1
        if any(nodes[clique[0]] is None for clique in selected):
            self.events[f"{space}: empty class selected"] += 1
        return prediction

    def first_order(self, nodes: Sequence[Float | None], threshold: float) -> Edges:
        """W_FOG as ordered pairs: cosine above the threshold, no self-loops, no edge at an absent node."""
        edges: Edges = set()
        for i, one in enumerate(nodes):
            for j, other in enumerate(nodes):
                if i == j or one is None or other is None:
                    continue
                similarity = cosine(one, other)
                self.note_margin(abs(similarity - threshold))
                if similarity > threshold:
                    edges.add((i, j))
        return edges

    def select(self, w: Float, nodes: Sequence[Float | None], cliques: list[list[int]], space: str) -> list[list[int]]:
        """The ⌈r·m⌉ cliques of highest affinity ρ; an absent node is a clique of its own, of affinity zero."""
        affinities = []
        for clique in cliques:
            total = np.zeros(len(w))
            for i in clique:
                node = nodes[i]
                if node is not None:
                    total = total + node
            hyper_class = total / len(clique)
            affinities.append(cosine(w, hyper_class) if hyper_class.any() else 0.0)
        order = sorted(range(len(cliques)), key=lambda c: -affinities[c])
        wanted = math.ceil(self.parameters.ratio * len(cliques))
        for c in order[:wanted]:
            for d in order[wanted:]:
                both_absent = nodes[cliques[c][0]] is None and nodes[cliques[d][0]] is None
                if not both_absent:  # of two zero rows either may be selected: both score zero
                    self.note_margin(affinities[c] - affinities[d])
        if wanted < len(cliques):
            self.events[f"{space}: clique left out"] += 1
        return [cliques[c] for c in order[:wanted]]

    def note_margin(self, distance: float) -> None:
        """Keep the least distance of any decision from its flip."""
        self.margin = min(self.margin, float(distance))


def second_order(first: Edges, size: int) -> Edges:
    """W_SOG = W_FOG ⊙ (W_FOG × W_FOG), as the pairs where it is above zero."""
    fog = np.zeros((size, size), dtype=np.int64)
    for i, j in first:
        fog[i, j] = 1
    sog = fog * (fog @ fog)
    return {(i, j) for i in range(size) for j in range(size) if sog[i, j] > 0}


def maximal_cliques(edges: Edges, size: int) -> list[list[int]]:
    """All maximal cliques; a node without neighbours is a clique of one."""
    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(edges)
    return [list(clique) for clique in nx.find_cliques(graph)]


def softmax(logits: Sequence[float]) -> Float:
    """exp(x) / Σ exp(x)."""
    powers = np.array([math.exp(x - max(logits)) for x in logits])
    quotient: Float = powers / powers.sum()
    return quotient


def entropy(p: Float, epsilon: float) -> float:
    """−Σ p·log(p + ε)."""
    return -sum(float(x) * math.log(float(x) + epsilon) for x in p)


def unit(vector: Float) -> Float:
    """The vector, scaled to length one."""
    scaled: Float = vector / math.sqrt(float(vector @ vector))
    return scaled


def cosine(one: Float, other: Float) -> float:
    """cos(one, other)."""
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


@dataclass(frozen=True)
class Outcome:
    """What the equations say about one stream."""

    answers: list[Answer]
    margin: float
    events: Counter[str]


def naive_paper(
    texts: Rows, logit_scale: float, parameters: Parameters, stream: Sequence[tuple[Rows, Rows | None]]
) -> Outcome:
    """Run the equations over a stream of (views [V, D], auxiliary feature [E] or None)."""
    run = NaivePaper(texts.astype(np.float64), logit_scale, parameters)
    answers = [
        run.step(views.astype(np.float64), None if aux is None else aux.astype(np.float64)) for views, aux in stream
    ]
    return Outcome(answers, run.margin, run.events)
