"""Tip-Adapter-F (ECCV 2022): the cache of Tip-Adapter with keys that are fine-tuned on the shots.

Zhang et al., "Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, affinity, as_float32, softmax
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Support, Task
from cosmic_tta.methods.components.optim import AdamW, Parameters, cross_entropy
from cosmic_tta.methods.components.training import (
    Checkpoint,
    ObjectiveOptions,
    TrainingDefaults,
    TrainingObjective,
    require_checkpoint,
)
from cosmic_tta.methods.registry import register_method, register_objective

ALPHA, BETA = 1.0, 5.5


@register_method
@final
@dataclass(frozen=True)
class TipAdapterF(Method[State]):
    """Tip-Adapter with fine-tuned keys. `cosmic train tip_adapter_f` makes the checkpoint; it needs no torch.

    Examples:
        >>> from cosmic_tta import Sample, Support, Task
        >>> from cosmic_tta.training import train_to_end
        >>> task = Task(("cat", "dog"), np.eye(2))
        >>> method = TipAdapterF(checkpoint=train_to_end("tip_adapter_f", task, Support(np.eye(2), [0, 1])))
        >>> method.step(method.init(task), Sample(np.eye(1, 2))).label
        0
    """

    name: ClassVar[str] = "tip_adapter_f"
    year: ClassVar[int | None] = 2022
    needs: ClassVar[tuple[str, ...]] = ("checkpoint",)

    alpha: float = param(ALPHA, "weight of the cache", range=(0, LARGE))
    beta: float = param(BETA, "sharpness of the affinity to a key", range=(0, LARGE))
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_checkpoint(self.checkpoint, self.name)

    def _init(self, task: Task) -> State:
        checkpoint = require_checkpoint(self.checkpoint, self.name)
        keys, metadata = checkpoint.arrays["keys"], checkpoint.metadata
        if keys.shape[1] != task.dim:
            raise InputError(f"the checkpoint's keys are {keys.shape[1]} wide, the class texts {task.dim} wide.")
        if metadata.get("clip") and task.encoder and metadata["clip"] != task.encoder:
            raise InputError(
                f"this checkpoint was trained on features of {metadata['clip']!r}; these are of {task.encoder!r}."
            )
        if tuple(metadata["class_names"]) != task.class_names:
            raise InputError(
                "the checkpoint's classes are not the task's, or in another order; a cache serves its own classes only."
            )
        return State(task, seen=0)

    def memories(self, state: State) -> tuple[FeatureMemory, ...]:
        """Return the fine-tuned keys."""
        arrays = require_checkpoint(self.checkpoint, self.name).arrays
        labels = arrays["labels"].astype(np.int64)
        return (FeatureMemory("support", arrays["keys"], labels, None, int(np.bincount(labels).max())),)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task, arrays = state.task, require_checkpoint(self.checkpoint, self.name).arrays
        logits = np.float32(task.logit_scale) * (task.unit_text @ sample.plain)  # [K]
        weights = affinity(arrays["keys"] @ sample.plain, self.beta)  # [n]
        labels = arrays["labels"].astype(np.int64)
        cache = np.bincount(labels, weights, minlength=task.classes).astype(np.float32)  # [K]
        adapted = logits + np.float32(self.alpha) * cache
        parts = {"zero_shot": softmax(logits), "cache": cache, "logits": adapted}
        return Prediction(softmax(adapted), parts)


@register_objective
@final
class TipAdapterFObjective(TrainingObjective):
    """Cross-entropy of the shots as a function of the keys. Keys need not keep length one."""

    method = "tip_adapter_f"
    defaults = TrainingDefaults(
        epochs=20, rate=1e-3, batch=256, optimiser=lambda: AdamW(epsilon=1e-4), rate_per_epoch=False
    )

    def __init__(self, task: Task, support: Support, options: ObjectiveOptions) -> None:
        self.task, self.support, self.alpha, self.beta = task, support, np.float32(ALPHA), np.float32(BETA)
        self._votes = np.eye(task.classes, dtype=np.float32)[support.labels]  # [keys, K]

    def init_weights(self, seed: int) -> Parameters:
        """Return the features of the shots as keys."""
        return {"keys": np.array(self.support.features)}

    def loss(self, weights: Parameters, features: Array, labels: Any) -> tuple[float, Parameters, int]:
        """Return the loss on features [n, D], its gradient, and the number of correct predictions."""
        affinities = np.exp(self.beta * (features @ weights["keys"].T - 1))  # [n, keys]
        logits = np.float32(self.task.logit_scale) * (features @ self.task.unit_text.T) + self.alpha * (
            affinities @ self._votes
        )
        loss, by_logits = cross_entropy(logits, labels)
        by_products = (by_logits @ self._votes.T) * affinities * (self.alpha * self.beta)  # [n, keys]
        return loss, {"keys": as_float32(by_products.T @ features)}, int((logits.argmax(axis=1) == labels).sum())

    def checkpoint(self, weights: Parameters, metadata: Mapping[str, Any]) -> Checkpoint:
        """Return the keys with their labels and class names."""
        arrays = dict(weights) | {"labels": as_float32(self.support.labels)}
        return Checkpoint(self.method, arrays, {**metadata, "class_names": list(self.task.class_names)})
