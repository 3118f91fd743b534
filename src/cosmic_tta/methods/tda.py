"""TDA (CVPR 2024): a positive and a negative cache over the test stream, without training.

Karmanov et al., "Efficient Test-Time Adaptation of Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, affinity, dots, entropy, logits_entropy, softmax, take_classes, unit
from cosmic_tta.core.errors import ParameterError, SnapshotError
from cosmic_tta.core.explanation import Explanation, explain_votes
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.methods.components.class_cache import ClassCache
from cosmic_tta.methods.components.view_selection import confident_views
from cosmic_tta.methods.registry import register_method


@dataclass
class TdaState(State):
    """Both caches, and for each slot of the negative one the classes that it votes against."""

    positive: ClassCache
    negative: ClassCache
    against: Array  # [K, L, K] 1 or 0

    def validate(self) -> None:
        """Raise a SnapshotError for votes that are neither 0 nor 1."""
        super().validate()
        if not ((self.against == 0) | (self.against == 1)).all():
            raise SnapshotError("a saved vote is neither 0 nor 1; the file is damaged.")


@register_method
@final
@dataclass(frozen=True)
class Tda(Method[TdaState]):
    """Adds a positive cache to the zero-shot logits and subtracts a negative cache.

    Samples of low entropy vote for their pseudo-label. Samples of medium entropy vote against every class that
    they give a probability within `negative_mask`. As in the published program, an entropy in nats is divided by
    log2(K).

    Examples:
        >>> from cosmic_tta import Sample, Task
        >>> method = Tda(shots=2)
        >>> state = method.init(Task(("cat", "dog"), np.eye(2)))
        >>> method.step(state, Sample(np.eye(1, 2))).label
        0
    """

    name: ClassVar[str] = "tda"
    year: ClassVar[int | None] = 2024

    confident: float = param(0.1, "share of the views kept, those of lowest entropy", range=(0, 1))
    shots: int = param(3, "slots per class in the positive cache", range=(1, LARGE), sizes_state=True)
    alpha: float = param(2.0, "weight of the positive cache", range=(0, LARGE))
    beta: float = param(5.0, "sharpness of the positive cache", range=(0, LARGE))
    negative_shots: int = param(2, "slots per class in the negative cache", range=(1, LARGE), sizes_state=True)
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

    def _remap_classes(self, state: TdaState, task: Task, class_map: Ints) -> TdaState:
        against = take_classes(state.against, class_map)  # [K, L, old K]
        return TdaState(
            task,
            seen=state.seen,
            positive=state.positive.remapped(class_map),
            negative=state.negative.remapped(class_map),
            against=np.moveaxis(take_classes(np.moveaxis(against, 2, 0), class_map), 0, 2).copy(),
        )

    def memories(self, state: TdaState) -> tuple[FeatureMemory, ...]:
        """Return both caches."""
        return state.positive.as_memory("positive"), state.negative.as_memory("negative")

    def _predict(self, state: TdaState, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        views = unit(sample.clip)
        view_logits = np.float32(task.logit_scale) * dots(task.text, views)  # [V, K]
        probabilities = softmax(view_logits)
        if len(views) == 1:
            feature, logits, mean = views[0], view_logits[0], probabilities[0]
            sample_entropy = float(logits_entropy(logits))
        else:
            kept = confident_views(logits_entropy(view_logits), self.confident)
            feature, logits = views[kept].mean(axis=0), view_logits[kept].mean(axis=0)
            mean = probabilities[kept].mean(axis=0)
            sample_entropy = float(entropy(mean, 1e-12))

        if learn:
            label = int(logits.argmax())
            state.positive.try_insert(label, feature, sample_entropy, state.seen)
            low, high = self.negative_entropy
            if task.classes > 1 and low < sample_entropy / log2(task.classes) < high:
                slot = state.negative.try_insert(label, feature, sample_entropy, state.seen)
                if slot is not None:
                    lowest, highest = self.negative_mask
                    state.against[label, slot] = (mean > np.float32(lowest)) & (mean < np.float32(highest))

        weights = affinity(_products(state.positive, feature), self.beta) * state.positive.filled()  # [K, L]
        against = affinity(_products(state.negative, feature), self.negative_beta) * state.negative.filled()  # [K, L]
        positive = np.float32(self.alpha) * weights.sum(axis=1)  # [K]
        negative = np.float32(self.negative_alpha) * (against.ravel() @ state.against.reshape(-1, task.classes))
        adapted = logits + positive - negative
        scores = softmax(adapted)
        parts = {"zero_shot": probabilities[0], "positive": positive, "negative": negative, "logits": adapted}
        return Prediction(scores, parts, self._explain(task, int(scores.argmax()), state, weights))

    def _explain(self, task: Task, answer: int, state: TdaState, weights: Array) -> Callable[[], Explanation]:
        samples = state.positive.sample[answer].copy()  # later steps change the cache
        return partial(explain_votes, "positive", task.class_names[answer], samples, weights[answer])


def _products(cache: ClassCache, feature: Array) -> Array:
    """Return the products of every slot with a feature, [K, L]."""
    slots = cache.slots
    return dots(slots.reshape(-1, slots.shape[2]), feature[None]).reshape(slots.shape[:2])
