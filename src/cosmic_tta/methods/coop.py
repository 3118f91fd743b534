"""CoOp (IJCV 2022): the prompt's context is learned from a few labelled images of each class.

Zhou et al., "Learning to Prompt for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core import DERIVED, Method, Prediction, Sample, State, Task, TextTower
from cosmic_tta.descent import Weights, cross_entropy
from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, softmax
from cosmic_tta.prompt_learning import (
    OPENING,
    Learned,
    Lesson,
    Recipe,
    checked,
    first_context,
    same_tower,
    tower_of,
)


@dataclass
class CoopState(State):
    """The class texts of the learned context; nothing is learned from the stream."""

    texts: Array = field(metadata=DERIVED)  # [K, D]


@final
@dataclass(frozen=True)
class Coop(Method[CoopState]):
    """Zero-shot with a learned context before the class names, `cosmic train coop`; it serves other classes too."""

    name: ClassVar[str] = "coop"
    needs: ClassVar[tuple[str, ...]] = ("tower", "checkpoint")

    checkpoint: Learned | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.checkpoint, self.name)

    def _init(self, task: Task) -> CoopState:
        tower, learned = tower_of(task, self.name), checked(self.checkpoint, self.name)
        same_tower(learned, tower)
        context = learned.arrays["context"]
        if context.ndim == 3 and tuple(learned.told.get("class_names", ())) != task.class_names:
            raise InputError(
                "this checkpoint has a context for each of its own classes, and the task has others; train without "
                "--class-specific to move to other classes."
            )
        return CoopState(task, seen=0, texts=class_texts(tower, context))

    def _predict(self, state: CoopState, sample: Sample, *, learn: bool) -> Prediction:
        scale = np.float32(state.task.logit_scale)
        logits = scale * (state.texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (state.task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def class_texts(tower: TextTower, context: Array) -> Array:
    """Return the class texts of one context for all classes [M, W], or of one for each [K, M, W]."""
    return tower.texts(context) if context.ndim == 2 else tower.texts(context[None])[0]


@final
class CoopLesson(Lesson):
    """Cross-entropy of the shots, through the text tower, to one context for all classes or to one for each."""

    method = "coop"
    recipe = Recipe(epochs=200, rate=2e-3, batch=32, warmup=1e-5)

    def __init__(self, task: Task, tokens: int = 4, words: str = OPENING, *, class_specific: bool = False) -> None:
        self.task, self.tower, self.tokens, self.words = task, tower_of(task, self.method), tokens, words
        self.class_specific = class_specific
        self.tower.require(tokens)

    def begin(self, seed: int) -> Weights:
        """Return the context before training: words, or vectors drawn."""
        context = first_context(self.tower, self.tokens, seed, self.words)
        return {"context": np.repeat(context[None], self.task.classes, axis=0) if self.class_specific else context}

    def loss(self, weights: Weights, features: Array, labels: Any) -> tuple[float, Weights, int]:
        """Return the loss on features [n, D], its gradient, and how many were named rightly."""
        scale = np.float32(self.task.logit_scale)
        context = weights["context"][None] if self.class_specific else weights["context"]
        texts, pull = self.tower.differentiate(context)
        logits = scale * (features @ texts.reshape(-1, self.task.dim).T)  # [n, K]
        loss, by_logits = cross_entropy(logits, labels)
        gradient = pull((scale * (by_logits.T @ features)).reshape(texts.shape))
        right = int((logits.argmax(axis=1) == labels).sum())
        return loss, {"context": gradient.reshape(weights["context"].shape)}, right

    def learned(self, weights: Weights, told: Mapping[str, Any]) -> Learned:
        """Return the context, with the tower that it belongs to."""
        own = {"tower": self.tower.fingerprint, "tokens": self.tokens, "template": f"{self.words or '(drawn)'} {{}}."}
        names = {"class_names": list(self.task.class_names)} if self.class_specific else {}
        return Learned(self.method, dict(weights), {**told, **own, **names})
