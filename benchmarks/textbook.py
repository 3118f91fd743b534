"""Textbook COSMIC and TDA in NumPy and networkx: the baseline that `cosmic bench` compares with.

Both follow their papers step by step, one sample at a time. Nothing is reused between steps.
"""

import math
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Cache = dict[int, list[list[Any]]]


def softmax(x: Array) -> Array:
    """Softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), dtype=np.float32)


def entropy(p: Array, eps: float = 0.0) -> Array:
    """Entropy over the last axis, -sum p log(p + eps); with eps = 0, terms with p = 0 count as 0."""
    logs = np.log(p + eps) if eps else np.log(np.where(p > 0, p, 1.0))
    return np.asarray(-(p * logs).sum(axis=-1), dtype=np.float32)


def normalise(x: Array) -> Array:
    """Scale rows to unit length; zero rows stay zero."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x / np.maximum(norm, 1e-12), dtype=np.float32)


def insert(cache: Cache, label: int, entry: list[Any], shots: int) -> bool:
    """Insert [feature, loss, ...] into a class's list, sorted by loss, and return whether the cache changed."""
    entries = cache.setdefault(label, [])
    if len(entries) < shots:
        entries.append(entry)
    elif entry[1] < entries[-1][1]:
        entries[-1] = entry
    else:
        return False
    entries.sort(key=lambda e: e[1])
    return True


class CliqueGraph:
    """Second-order similarity graph over a set of nodes, and its maximal cliques."""

    def __init__(self, degree: float, ratio: float, alpha: float, beta: float) -> None:
        self.degree = degree
        self.ratio = ratio
        self.alpha = alpha
        self.beta = beta
        self.cliques: list[list[int]] = []
        self.anchors: Array = np.zeros((0, 0), dtype=np.float32)

    def threshold(self, similarity: Array) -> float:
        """Bisect for the similarity above which the mean degree (off the diagonal) is the target."""
        low, high = float(similarity.min()), float(similarity.max())
        off_diagonal = similarity.copy()
        np.fill_diagonal(off_diagonal, -np.inf)
        mid = low
        for _ in range(500):
            mid = (low + high) / 2
            mean_degree = np.count_nonzero(off_diagonal > mid) / len(similarity)
            if abs(mean_degree - self.degree) < 0.01:
                break
            if mean_degree < self.degree:
                high = mid
            else:
                low = mid
        return mid

    def rebuild(self, nodes: Array) -> None:
        """Build the graph, list its maximal cliques and take each clique's mean as its anchor."""
        similarity = nodes @ nodes.T
        first = similarity > self.threshold(similarity)
        np.fill_diagonal(first, False)
        hops = first.astype(np.float32)
        second = first & (hops @ hops > 1)
        graph = nx.from_numpy_array(second, edge_attr=None)
        self.cliques = list(nx.find_cliques(graph))
        self.anchors = np.stack([nodes[clique].mean(axis=0) for clique in self.cliques])

    def score(self, query: Array, nodes: Array) -> Array:
        """Affinity of the query to every node in the cliques nearest to it, 0 for all other nodes."""
        count = max(1, int(self.ratio * len(self.cliques)))
        nearest = np.argsort(-(self.anchors @ query), kind="stable")[:count]
        mask = np.zeros(len(nodes), dtype=np.float32)
        for clique in nearest:
            mask[self.cliques[clique]] = 1
        return np.asarray(mask * self.alpha * np.exp(-self.beta * (1 - nodes @ query)), dtype=np.float32)


class TextbookCosmic:
    """COSMIC as published: CLIP memory, auxiliary cache, and clique scores on both (CSS and AFV)."""

    def __init__(
        self,
        text: Array,
        aux_dim: int,
        shots: int = 8,
        logit_scale: float = 100.0,
        degree: float = 4.0,
        aux_degree: float = 5.0,
        ratio: float = 0.2,
        alpha: float = 2.0,
        beta: float = 5.0,
    ) -> None:
        self.text = text
        self.unit_text = normalise(text)
        self.aux_dim = aux_dim
        self.shots = shots
        self.logit_scale = logit_scale
        self.alpha = alpha
        self.beta = beta
        classes, dim = text.shape
        self.slots: Array = np.zeros((classes, shots + 1, dim), dtype=np.float32)  # the last slot holds the text
        self.slots[:, -1] = self.unit_text
        self.entropies: Array = np.zeros((classes, shots), dtype=np.float32)
        self.counts = np.zeros(classes, dtype=np.int64)
        self.aux_cache: Cache = {}
        self.css_graph = CliqueGraph(degree, ratio, alpha, beta)
        self.afv_graph = CliqueGraph(aux_degree, ratio, alpha, beta)
        self.index = 0

    def remember(self, label: int, feature: Array, loss: float) -> bool:
        """Store a feature in the CLIP memory; in a full class it replaces the slot of highest entropy."""
        if self.counts[label] < self.shots:
            slot = int(self.counts[label])
            self.counts[label] += 1
        else:
            slot = int(self.entropies[label].argmax())
            if loss >= self.entropies[label, slot]:
                return False
        self.slots[label, slot] = normalise(feature)
        self.entropies[label, slot] = loss
        return True

    def clip_centres(self, query: Array) -> Array:
        """Class centres of the CLIP memory, slots weighted by their affinity to the query."""
        weights = np.exp(-5.5 * (1 - self.slots @ query))
        return normalise((weights[:, None, :] @ self.slots)[:, 0])

    def aux_scores(self, aux: Array) -> Array:
        """Softmax over classes of the summed affinities to the auxiliary cache."""
        scores = np.zeros(len(self.text), dtype=np.float32)
        for label, entries in self.aux_cache.items():
            keys = np.stack([entry[0] for entry in entries])
            scores[label] = self.alpha * np.exp(-self.beta * (1 - keys @ aux)).sum()
        return softmax(scores)

    def aux_centres(self) -> Array:
        """Mean auxiliary feature of every class; a zero row for an empty class."""
        centres = np.zeros((len(self.text), self.aux_dim), dtype=np.float32)
        for label, entries in self.aux_cache.items():
            centres[label] = np.mean([entry[0] for entry in entries], axis=0)
        return centres

    def must_rebuild(self, updated: bool) -> bool:
        """Return whether to rebuild a graph in this step."""
        if self.index <= len(self.text) * self.shots:
            return updated
        return self.index % 100 == 0

    def step(self, clip: Array, aux: Array) -> dict[str, Array]:
        """Adapt to one sample and return its scores.

        Args:
            clip: CLIP features of the views, [V, D]; the plain image is the first.
            aux: The auxiliary feature, [E].
        """
        query = clip[0]

        # Zero-shot prediction, and the pseudo-label from the most confident views.
        probs = softmax(self.logit_scale * (clip @ self.unit_text.T))
        zero_shot = probs[0]
        kept = np.argsort(entropy(probs, 1e-6), kind="stable")[: max(1, int(0.1 * len(clip)))]
        mean_probs = probs[kept].mean(axis=0)
        updated = self.remember(int(mean_probs.argmax()), clip[kept].mean(axis=0), float(entropy(mean_probs, 1e-8)))

        # CLIP memory, then the auxiliary cache. The sum of both predictions is the pseudo-label of the cache.
        centres = self.clip_centres(query)
        clip_cache = softmax(self.logit_scale * (centres @ query))
        both = zero_shot + clip_cache
        aux_updated = insert(self.aux_cache, int(both.argmax()), [aux, float(entropy(softmax(both)))], self.shots)
        aux_cache = self.aux_scores(aux)

        # Clique scores: text and memory centres (CSS), auxiliary centres (AFV).
        nodes = np.concatenate([self.text, centres])
        if self.must_rebuild(updated):
            self.css_graph.rebuild(nodes)
        css = self.css_graph.score(query, nodes).reshape(2, -1).mean(axis=0)

        aux_nodes = self.aux_centres()
        if self.must_rebuild(aux_updated):
            self.afv_graph.rebuild(aux_nodes)
        afv = self.afv_graph.score(aux, aux_nodes)

        self.index += 1
        return {
            "zero_shot": zero_shot,
            "clip_cache": clip_cache,
            "aux_cache": aux_cache,
            "css": css,
            "afv": afv,
            "scores": zero_shot + css + afv,
        }


class TextbookTda:
    """TDA as published, one view: a positive and a negative cache of key-value pairs."""

    def __init__(self, text: Array, logit_scale: float = 100.0) -> None:
        self.text = text
        self.logit_scale = logit_scale
        self.positive: Cache = {}
        self.negative: Cache = {}

    def step(self, clip: Array) -> Array:
        """Put one sample [1, D] into the caches, then return its adapted logits [K]."""
        classes = len(self.text)
        query = normalise(clip[0])
        logits = self.logit_scale * (self.text @ query)
        probs = softmax(logits)
        loss = float(entropy(probs))
        label = int(logits.argmax())
        insert(self.positive, label, [query, loss], 3)
        if 0.2 < loss / math.log2(classes) < 0.5:
            insert(self.negative, label, [query, loss, probs], 2)

        keys = np.stack([entry[0] for entries in self.positive.values() for entry in entries])
        labels = [label for label, entries in self.positive.items() for _ in entries]
        values = np.eye(classes, dtype=np.float32)[labels]
        final = logits + 2.0 * (np.exp(-5.0 * (1 - keys @ query)) @ values)

        if self.negative:
            keys = np.stack([entry[0] for entries in self.negative.values() for entry in entries])
            rows = np.stack([entry[2] for entries in self.negative.values() for entry in entries])
            values = ((rows > 0.03) & (rows < 1.0)).astype(np.float32)
            final = final - 0.117 * (np.exp(-1.0 * (1 - keys @ query)) @ values)
        return np.asarray(final, dtype=np.float32)
