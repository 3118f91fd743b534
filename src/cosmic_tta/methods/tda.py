"""TDA (CVPR 2024): a positive and a negative cache over the test stream, training-free.

Karmanov et al., "Efficient Test-Time Adaptation of Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import ClassVar, final

import numpy as np

from cosmic_tta.cache import ClassCache
from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.errors import ParameterError, SnapshotError
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.ops import (
    Array,
    Ints,
    affinity,
    by_place,
    confident_views,
    dots,
    entropy,
    logits_entropy,
    softmax,
    unit,
)
from cosmic_tta.parameters import LARGE, param


@dataclass
class TdaState(State):
    """Two caches; the negative one also keeps which classes each of its samples votes against."""

    positive: ClassCache
    negative: ClassCache
    against: Array  # [K, L, K] 1 or 0

    def validate(self) -> None:
        """Refuse votes that are none."""
        super().validate()
        if not ((self.against == 0) | (self.against == 1)).all():
            raise SnapshotError("a saved vote is neither 0 nor 1; the file is damaged.")


@final
@dataclass(frozen=True)
class Tda(Method[TdaState]):
    """logits + positive cache - negative cache.

    Sure samples vote for their pseudo-label; samples of middling entropy vote against every class that
    they hold for possible. An entropy, in nats, is compared as a share of log2(K): so does the published program.
    """

    name: ClassVar[str] = "tda"

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    shots: int = param(3, "slots a class in the positive cache", range=(1, LARGE))
    alpha: float = param(2.0, "weight of the positive cache", range=(0, LARGE))
    beta: float = param(5.0, "sharpness of the positive cache", range=(0, LARGE))
    negative_shots: int = param(2, "slots a class in the negative cache", range=(1, LARGE))
    negative_alpha: float = param(0.117, "weight of the negative cache", range=(0, LARGE))
    negative_beta: float = param(1.0, "sharpness of the negative cache", range=(0, LARGE))
    negative_entropy: tuple[float, float] = param((0.2, 0.5), "entropy/log2(K) between which a sample is negative")
    negative_mask: tuple[float, float] = param((0.03, 1.0), "probabilities between which a class is voted against")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("negative_entropy", "negative_mask"):
            low, high = getattr(self, name)
            if not low < high:
                raise ParameterError(f"tda: {name} must be a lower and a higher number; given {low:g}, {high:g}.")

    def _init(self, task: Task) -> TdaState:
        classes, shots = task.classes, self.negative_shots
        return TdaState(
            task,
            seen=0,
            positive=ClassCache.empty(classes, self.shots, task.dim),
            negative=ClassCache.empty(classes, shots, task.dim),
            against=np.zeros((classes, shots, classes), np.float32),
        )

    def _carry(self, state: TdaState, task: Task, places: Ints) -> TdaState:
        against = by_place(state.against, places)  # [K, L, old K]
        return TdaState(
            task,
            seen=state.seen,
            positive=state.positive.carried(places),
            negative=state.negative.carried(places),
            against=np.moveaxis(by_place(np.moveaxis(against, 2, 0), places), 0, 2).copy(),
        )

    def _predict(self, state: TdaState, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        views = unit(sample.clip)
        view_logits = np.float32(task.logit_scale) * dots(task.text, views)  # [V, K]
        probabilities = softmax(view_logits)
        if len(views) == 1:
            feature, logits, row = views[0], view_logits[0], probabilities[0]
            loss = float(logits_entropy(logits))
        else:
            kept = confident_views(logits_entropy(view_logits), self.confident)
            feature, logits = views[kept].mean(axis=0), view_logits[kept].mean(axis=0)
            row = probabilities[kept].mean(axis=0)
            loss = float(entropy(row, 1e-12))

        if learn:
            label = int(logits.argmax())
            state.positive.offer(label, feature, loss, state.seen)
            low, high = self.negative_entropy
            if task.classes > 1 and low < loss / log2(task.classes) < high:
                slot = state.negative.offer(label, feature, loss, state.seen)
                if slot is not None:
                    least, most = self.negative_mask
                    state.against[label, slot] = (row > np.float32(least)) & (row < np.float32(most))

        near = affinity(_products(state.positive, feature), self.beta) * state.positive.filled()  # [K, L]
        far = affinity(_products(state.negative, feature), self.negative_beta) * state.negative.filled()
        positive = np.float32(self.alpha) * near.sum(axis=1)  # [K]
        negative = np.float32(self.negative_alpha) * (far.ravel() @ state.against.reshape(-1, task.classes))
        adapted = logits + positive - negative
        scores = softmax(adapted)
        parts = {"zero_shot": probabilities[0], "positive": positive, "negative": negative, "logits": adapted}
        return Prediction(scores, parts, self._explain(task, int(scores.argmax()), state, near))

    def _explain(self, task: Task, answer: int, state: TdaState, near: Array) -> Callable[[], Explanation]:
        samples = state.positive.sample[answer].copy()  # the cache goes on changing
        return lambda: Explanation(votes={"positive": votes(task.class_names[answer], samples, near[answer])})


def _products(cache: ClassCache, feature: Array) -> Array:
    """Return the products of every slot with a feature, [K, L]."""
    slots = cache.slots
    return dots(slots.reshape(-1, slots.shape[2]), feature[None]).reshape(slots.shape[:2])
