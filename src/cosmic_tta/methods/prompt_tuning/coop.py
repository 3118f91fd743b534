"""CoOp (IJCV 2022): the context of the prompt is learned from a few labelled images per class.

Zhou et al., "Learning to Prompt for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, softmax
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import DERIVED, Prediction, PromptTower, Sample, State, Support, Task
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


@dataclass
class CoopState(State):
    """The class texts of the learned context; nothing is learned from the stream."""

    texts: Array = field(metadata=DERIVED)  # [K, D]


@register_method
@final
@dataclass(frozen=True)
class Coop(Method[CoopState]):
    """Zero-shot with a learned context before the class names. `cosmic train coop` makes the checkpoint.

    A context for all classes also works for other classes than the trained ones. It needs a text tower (torch).

    Examples:
        >>> Coop.needs
        ('tower', 'checkpoint')
    """

    name: ClassVar[str] = "coop"
    year: ClassVar[int | None] = 2022
    needs: ClassVar[tuple[str, ...]] = ("tower", "checkpoint")

    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_checkpoint(self.checkpoint, self.name)

    def _init(self, task: Task) -> CoopState:
        tower, checkpoint = require_tower(task, self.name), require_checkpoint(self.checkpoint, self.name)
        check_same_tower(checkpoint, tower)
        context = checkpoint.arrays["context"]
        if context.ndim == 3 and tuple(checkpoint.metadata.get("class_names", ())) != task.class_names:
            raise InputError(
                "this checkpoint has one context per class of its own, and the task has other classes; train without "
                "--class-specific to use other classes."
            )
        return CoopState(task, seen=0, texts=coop_texts(tower, context))

    def _predict(self, state: CoopState, sample: Sample, *, learn: bool) -> Prediction:
        scale = np.float32(state.task.logit_scale)
        logits = scale * (state.texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (state.task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def coop_texts(tower: PromptTower, context: Array) -> Array:
    """Return the class texts of one context for all classes [M, W], or of one per class [K, M, W]."""
    return tower.texts(context) if context.ndim == 2 else tower.texts(context[None])[0]


@register_objective
@final
class CoopObjective(TrainingObjective):
    """Cross-entropy of the shots as a function of one context for all classes, or of one per class."""

    method = "coop"
    defaults = TrainingDefaults(epochs=200, rate=2e-3, batch=32, warmup_rate=1e-5)
    per_class = True

    def __init__(self, task: Task, support: Support, options: ObjectiveOptions) -> None:
        self.task, self.tower, self.options = task, require_tower(task, self.method), options
        self.tower.require(options.tokens)

    def init_weights(self, seed: int) -> Parameters:
        """Return the context before training."""
        context = init_context(self.tower, self.options.tokens, seed, self.options.words)
        if self.options.class_specific:
            context = np.repeat(context[None], self.task.classes, axis=0)
        return {"context": context}

    def loss(self, weights: Parameters, features: Array, labels: Any) -> tuple[float, Parameters, int]:
        """Return the loss on features [n, D], its gradient, and the number of correct predictions."""
        scale = np.float32(self.task.logit_scale)
        context = weights["context"][None] if self.options.class_specific else weights["context"]
        texts, pull = self.tower.differentiate(context)
        logits = scale * (features @ texts.reshape(-1, self.task.dim).T)  # [n, K]
        loss, by_logits = cross_entropy(logits, labels)
        gradient = pull((scale * (by_logits.T @ features)).reshape(texts.shape))
        correct = int((logits.argmax(axis=1) == labels).sum())
        return loss, {"context": gradient.reshape(weights["context"].shape)}, correct

    def checkpoint(self, weights: Parameters, metadata: Mapping[str, Any]) -> Checkpoint:
        """Return the context, with the tower that it belongs to."""
        names = {"class_names": list(self.task.class_names)} if self.options.class_specific else {}
        own = {**context_metadata(self.tower, self.options), **names}
        return Checkpoint(self.method, dict(weights), {**metadata, **own})
