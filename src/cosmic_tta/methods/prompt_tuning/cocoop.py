"""CoCoOp (CVPR 2022): a small network shifts the learned context for each image.

Zhou et al., "Conditional Prompt Learning for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, as_float32, softmax
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, State, Support, Task
from cosmic_tta.methods.components.optim import Parameters, cross_entropy
from cosmic_tta.methods.components.training import (
    Checkpoint,
    ObjectiveOptions,
    TrainingDefaults,
    TrainingObjective,
    require_checkpoint,
)
from cosmic_tta.methods.prompt_tuning.context import check_same_tower, context_metadata, init_context, require_tower
from cosmic_tta.methods.registry import register_method, register_objective

REDUCTION = 16  # feature width divided by the inner width of the network
SHAPES = {"context": 2, "inner": 2, "inner_bias": 1, "outer": 2, "outer_bias": 1}


@register_method
@final
@dataclass(frozen=True)
class CoCoop(Method[State]):
    """CoOp with a context that a small network shifts for each image. `cosmic train cocoop` makes the checkpoint.

    It also works for other classes than the trained ones. It needs a text tower (torch).

    Examples:
        >>> CoCoop.needs
        ('tower', 'checkpoint')
    """

    name: ClassVar[str] = "cocoop"
    year: ClassVar[int | None] = 2022
    needs: ClassVar[tuple[str, ...]] = ("tower", "checkpoint")

    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_checkpoint(self.checkpoint, self.name)

    def _init(self, task: Task) -> State:
        tower, checkpoint = require_tower(task, self.name), require_checkpoint(self.checkpoint, self.name)
        check_same_tower(checkpoint, tower)
        arrays = checkpoint.arrays
        if {name: array.ndim for name, array in arrays.items()} != SHAPES:
            raise InputError(f"a checkpoint of cocoop holds {', '.join(SHAPES)}; this one holds {', '.join(arrays)}.")
        tower.require(len(arrays["context"]))
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        scale = np.float32(state.task.logit_scale)
        weights = dict(require_checkpoint(self.checkpoint, self.name).arrays)
        context = weights["context"] + context_shift(weights, sample.clip[:1])[1]  # [M, W]
        texts = require_tower(state.task, self.name).texts(context)
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (state.task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def context_shift(weights: Parameters, features: Array) -> tuple[Array, Array]:
    """Return the inner values [n, H] of the network and the shift of the context [n, W], for features [n, D]."""
    inner = np.maximum(features @ weights["inner"] + weights["inner_bias"], 0)
    return inner, as_float32(inner @ weights["outer"] + weights["outer_bias"])


@register_objective
@final
class CoCoopObjective(TrainingObjective):
    """Cross-entropy of the shots, each with prompts of its own. The network begins with a shift of zero."""

    method = "cocoop"
    defaults = TrainingDefaults(epochs=10, rate=2e-3, batch=1, warmup_rate=1e-5)

    def __init__(self, task: Task, support: Support, options: ObjectiveOptions) -> None:
        self.task, self.tower, self.options = task, require_tower(task, self.method), options
        self.tower.require(options.tokens)

    def init_weights(self, seed: int) -> Parameters:
        """Return context and network before training."""
        hidden = max(1, self.task.dim // REDUCTION)
        bound = self.task.dim**-0.5
        random = np.random.default_rng([seed, 1])
        return {
            "context": init_context(self.tower, self.options.tokens, seed, self.options.words),
            "inner": as_float32(random.uniform(-bound, bound, (self.task.dim, hidden))),
            "inner_bias": as_float32(random.uniform(-bound, bound, hidden)),
            "outer": np.zeros((hidden, self.tower.width), np.float32),
            "outer_bias": np.zeros(self.tower.width, np.float32),
        }

    def loss(self, weights: Parameters, features: Array, labels: Any) -> tuple[float, Parameters, int]:
        """Return the loss on features [n, D], its gradients, and the number of correct predictions."""
        scale = np.float32(self.task.logit_scale)
        inner, shift = context_shift(weights, features)  # [n, H], [n, W]
        texts, pull = self.tower.differentiate(weights["context"] + shift[:, None])  # [n, K, D]
        logits = scale * np.einsum("nkd,nd->nk", texts, features)
        loss, by_logits = cross_entropy(logits, labels)
        by_context = pull(scale * by_logits[:, :, None] * features[:, None])  # [n, M, W]
        by_shift = by_context.sum(axis=1)  # [n, W]
        by_inner = (by_shift @ weights["outer"].T) * (inner > 0)  # [n, H]
        gradients = {
            "context": by_context.sum(axis=0),
            "inner": features.T @ by_inner,
            "inner_bias": by_inner.sum(axis=0),
            "outer": inner.T @ by_shift,
            "outer_bias": by_shift.sum(axis=0),
        }
        return loss, gradients, int((logits.argmax(axis=1) == labels).sum())

    def checkpoint(self, weights: Parameters, metadata: Mapping[str, Any]) -> Checkpoint:
        """Return context and network, with the tower that they belong to."""
        return Checkpoint(self.method, dict(weights), {**metadata, **context_metadata(self.tower, self.options)})
