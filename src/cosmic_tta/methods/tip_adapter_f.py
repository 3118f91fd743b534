"""Tip-Adapter-F (ECCV 2022): Tip-Adapter's cache with its keys fine-tuned on the shots.

Zhang et al., "Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Support, Task
from cosmic_tta.descent import AdamW, Weights, cross_entropy
from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, affinity, as_float32, softmax
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.prompt_learning import Learned, Lesson, Recipe, checked

ALPHA, BETA = 1.0, 5.5


@final
@dataclass(frozen=True)
class TipAdapterF(Method[State]):
    """Tip-Adapter with keys that were fine-tuned on the shots, `cosmic train tip_adapter_f`; no torch is needed."""

    name: ClassVar[str] = "tip_adapter_f"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint",)

    alpha: float = param(ALPHA, "weight of the cache", range=(0, LARGE))
    beta: float = param(BETA, "sharpness of the affinity to a key", range=(0, LARGE))
    checkpoint: Learned | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.checkpoint, self.name)

    def _init(self, task: Task) -> State:
        learned = checked(self.checkpoint, self.name)
        keys, names = learned.arrays["keys"], tuple(learned.told["class_names"])
        if keys.shape[1] != task.dim:
            raise InputError(f"the checkpoint's keys are {keys.shape[1]} wide, the class texts {task.dim} wide.")
        if learned.told.get("clip") and task.encoder and learned.told["clip"] != task.encoder:
            raise InputError(
                f"this checkpoint was trained on features of {learned.told['clip']!r}; these are of {task.encoder!r}."
            )
        if names != task.class_names:
            raise InputError(
                "the checkpoint's classes are not the task's, or in another order; a cache serves its own classes only."
            )
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task, arrays = state.task, checked(self.checkpoint, self.name).arrays
        logits = np.float32(task.logit_scale) * (task.unit_text @ sample.plain)  # [K]
        near = affinity(arrays["keys"] @ sample.plain, self.beta)  # [n]
        labels = arrays["labels"].astype(np.int64)
        cache = np.bincount(labels, near, minlength=task.classes).astype(np.float32)  # [K]
        adapted = logits + np.float32(self.alpha) * cache
        parts = {"zero_shot": softmax(logits), "cache": cache, "logits": adapted}
        return Prediction(softmax(adapted), parts)


@final
class TipAdapterFLesson(Lesson):
    """Cross-entropy of the shots, to the keys; they need not stay of length one."""

    method = "tip_adapter_f"
    recipe = Recipe(epochs=20, rate=1e-3, batch=256, optimiser=lambda: AdamW(epsilon=1e-4), steady=False)

    def __init__(self, task: Task, support: Support, alpha: float = ALPHA, beta: float = BETA) -> None:
        self.task, self.support, self.alpha, self.beta = task, support, np.float32(alpha), np.float32(beta)
        self._votes = np.eye(task.classes, dtype=np.float32)[support.labels]  # [keys, K]

    def begin(self, seed: int) -> Weights:
        """Return the shots' features as keys."""
        return {"keys": np.array(self.support.features)}

    def loss(self, weights: Weights, features: Array, labels: Any) -> tuple[float, Weights, int]:
        """Return the loss on features [n, D], its gradient, and how many were named rightly."""
        near = np.exp(self.beta * (features @ weights["keys"].T - 1))  # [n, keys]
        logits = np.float32(self.task.logit_scale) * (features @ self.task.unit_text.T) + self.alpha * (
            near @ self._votes
        )
        loss, by_logits = cross_entropy(logits, labels)
        by_products = (by_logits @ self._votes.T) * near * (self.alpha * self.beta)  # [n, keys]
        return loss, {"keys": as_float32(by_products.T @ features)}, int((logits.argmax(axis=1) == labels).sum())

    def learned(self, weights: Weights, told: Mapping[str, Any]) -> Learned:
        """Return the keys with their classes."""
        arrays = dict(weights) | {"labels": as_float32(self.support.labels)}
        return Learned(self.method, arrays, {**told, "class_names": list(self.task.class_names)})
