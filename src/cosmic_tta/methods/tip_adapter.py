"""Tip-Adapter (ECCV 2022): a key-value cache over a labelled few-shot support set, without training.

Zhang et al., "Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, affinity, softmax
from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.core.explanation import Explanation, explain_votes
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Support, Task
from cosmic_tta.methods.registry import register_method


@register_method
@final
@dataclass(frozen=True)
class TipAdapter(Method[State]):
    """Adds α·Σ exp(-β·(1 - x·key))·onehot(label) to the zero-shot logits, over the keys of a support set.

    The support is labelled training data and never of the stream. Nothing is learned from the stream.

    Examples:
        >>> from cosmic_tta import Sample, Support, Task
        >>> method = TipAdapter(support=Support(np.eye(2), [0, 1]))
        >>> state = method.init(Task(("cat", "dog"), np.eye(2)))
        >>> method.step(state, Sample(np.eye(1, 2))).label
        0
    """

    name: ClassVar[str] = "tip_adapter"
    year: ClassVar[int | None] = 2022
    needs: ClassVar[tuple[str, ...]] = ("support",)

    alpha: float = param(1.0, "weight of the cache", range=(0, LARGE))
    beta: float = param(5.5, "sharpness of the affinity to a key", range=(0, LARGE))
    support: Support | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.support, Support):
            raise ParameterError(
                "tip_adapter needs labelled training features: TipAdapter(support=Support(features, labels)) or "
                "TipAdapter(support=pack.support()), --support PACK on the command line."
            )

    def _init(self, task: Task) -> State:
        support = self._support
        if support.features.shape[1] != task.dim:
            raise InputError(
                f"the support's features are {support.features.shape[1]} wide, the class texts {task.dim} wide."
            )
        if support.class_names is not None and support.class_names != task.class_names:
            raise InputError(
                "the support's classes are not the task's, or in another order; its labels would be false."
            )
        if not ((support.labels >= 0) & (support.labels < task.classes)).all():
            raise InputError(
                f"the support's labels go from {support.labels.min()} to {support.labels.max()}; "
                f"this task has the classes 0 to {task.classes - 1}."
            )
        return State(task, seen=0)

    def _for_classes(self, class_map: Ints) -> TipAdapter:
        """Return the method with the support of remapped classes; rows of a removed class are dropped."""
        support = self._support
        held = np.flatnonzero(class_map >= 0)
        labels = np.full(max(int(support.labels.max()), int(class_map.max())) + 1, -1, np.int64)
        labels[class_map[held]] = held
        remaining = labels[support.labels] >= 0
        if not remaining.any():
            raise InputError("the support has samples of none of these classes; a new stream needs a new support.")
        return replace(self, support=Support(support.features[remaining], labels[support.labels[remaining]]))

    @property
    def _support(self) -> Support:
        assert self.support is not None  # __post_init__ refuses None
        return self.support

    def memories(self, state: State) -> tuple[FeatureMemory, ...]:
        """Return the keys of the support set."""
        features, labels = self._support.features, self._support.labels
        return (FeatureMemory("support", features, labels, None, int(np.bincount(labels).max())),)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task, support = state.task, self._support
        logits = np.float32(task.logit_scale) * (task.unit_text @ sample.plain)  # [K]
        weights = affinity(support.features @ sample.plain, self.beta)  # [n]
        cache = np.bincount(support.labels, weights, minlength=task.classes).astype(np.float32)  # [K]
        adapted = logits + np.float32(self.alpha) * cache
        scores = softmax(adapted)
        parts = {"zero_shot": softmax(logits), "cache": cache, "logits": adapted}
        return Prediction(scores, parts, self._explain(task, int(scores.argmax()), weights))

    def _explain(self, task: Task, answer: int, weights: Array) -> Callable[[], Explanation]:
        own = np.flatnonzero(self._support.labels == answer)
        return partial(explain_votes, "support", task.class_names[answer], own, weights[own])
