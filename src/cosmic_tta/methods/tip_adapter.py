"""Tip-Adapter (ECCV 2022): a key-value cache over a labelled few-shot support set, training-free.

Zhang et al., "Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Support, Task
from cosmic_tta.errors import InputError, ParameterError
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.ops import Array, Ints, affinity, softmax
from cosmic_tta.parameters import LARGE, param


@final
@dataclass(frozen=True)
class TipAdapter(Method[State]):
    """logits + α·Σ exp(-β·(1 - w·key))·onehot(label), the keys given once with their labels.

    The support is labelled training data, never of the stream. The state learns nothing.
    """

    name: ClassVar[str] = "tip_adapter"
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
            raise InputError("the support's classes are not the task's, or in another order; its labels would mislead.")
        if not ((support.labels >= 0) & (support.labels < task.classes)).all():
            raise InputError(
                f"the support's labels go from {support.labels.min()} to {support.labels.max()}; "
                f"this task has the classes 0 to {task.classes - 1}."
            )
        return State(task, seen=0)

    def _for_classes(self, places: Ints) -> TipAdapter:
        """Return the method with the support of other classes: rows of a class that is gone go with it."""
        support = self._support
        held = np.flatnonzero(places >= 0)
        labels = np.full(max(int(support.labels.max()), int(places.max())) + 1, -1, np.int64)
        labels[places[held]] = held
        stays = labels[support.labels] >= 0
        if not stays.any():
            raise InputError("the support has samples of none of these classes; a new stream needs a new support.")
        return replace(self, support=Support(support.features[stays], labels[support.labels[stays]]))

    @property
    def _support(self) -> Support:
        assert self.support is not None  # __post_init__ saw to it
        return self.support

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task, support = state.task, self._support
        logits = np.float32(task.logit_scale) * (task.unit_text @ sample.plain)  # [K]
        near = affinity(support.features @ sample.plain, self.beta)  # [n]
        cache = np.bincount(support.labels, near, minlength=task.classes).astype(np.float32)  # [K]
        logits_all = logits + np.float32(self.alpha) * cache
        scores = softmax(logits_all)
        parts = {"zero_shot": softmax(logits), "cache": cache, "logits": logits_all}
        return Prediction(scores, parts, self._explain(task, int(scores.argmax()), near))

    def _explain(self, task: Task, answer: int, near: Array) -> Callable[[], Explanation]:
        def explain() -> Explanation:
            own = np.flatnonzero(self._support.labels == answer)
            return Explanation(votes={"support": votes(task.class_names[answer], own, near[own])})

        return explain
