"""CoCoOp (CVPR 2022): the learned context is moved by each image, through a small network.

Zhou et al., "Conditional Prompt Learning for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.descent import Weights, cross_entropy
from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, as_float32, softmax
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

NARROWER = 16  # the network's inner width is the feature's, divided by this
SHAPES = {"context": 2, "inner": 2, "inner_bias": 1, "outer": 2, "outer_bias": 1}


@final
@dataclass(frozen=True)
class CoCoop(Method[State]):
    """CoOp whose context a small network moves for each image, `cosmic train cocoop`; it serves other classes too."""

    name: ClassVar[str] = "cocoop"
    needs: ClassVar[tuple[str, ...]] = ("tower", "checkpoint")

    checkpoint: Learned | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.checkpoint, self.name)

    def _init(self, task: Task) -> State:
        tower, learned = tower_of(task, self.name), checked(self.checkpoint, self.name)
        same_tower(learned, tower)
        if {name: array.ndim for name, array in learned.arrays.items()} != SHAPES:
            raise InputError(f"a checkpoint of cocoop holds {', '.join(SHAPES)}; this one {', '.join(learned.arrays)}.")
        tower.require(len(learned.arrays["context"]))
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        scale = np.float32(state.task.logit_scale)
        weights = dict(checked(self.checkpoint, self.name).arrays)
        moved = weights["context"] + moves(weights, sample.clip[:1])[1]  # [M, W]
        texts = tower_of(state.task, self.name).texts(moved)
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (state.task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def moves(weights: Weights, features: Array) -> tuple[Array, Array]:
    """Return the network's inner values and what it adds to the context, for features [n, D]: [n, H] and [n, W]."""
    inner = np.maximum(features @ weights["inner"] + weights["inner_bias"], 0)
    return inner, as_float32(inner @ weights["outer"] + weights["outer_bias"])


@final
class CoCoopLesson(Lesson):
    """Cross-entropy of the shots, each with prompts of its own; the network begins by moving nothing."""

    method = "cocoop"
    recipe = Recipe(epochs=10, rate=2e-3, batch=1, warmup=1e-5)

    def __init__(self, task: Task, tokens: int = 4, words: str = OPENING) -> None:
        self.task, self.tower, self.tokens, self.words = task, tower_of(task, self.method), tokens, words
        self.tower.require(tokens)

    def begin(self, seed: int) -> Weights:
        """Return context and network before training."""
        hidden = max(1, self.task.dim // NARROWER)
        bound = self.task.dim**-0.5
        random = np.random.default_rng([seed, 1])
        return {
            "context": first_context(self.tower, self.tokens, seed, self.words),
            "inner": as_float32(random.uniform(-bound, bound, (self.task.dim, hidden))),
            "inner_bias": as_float32(random.uniform(-bound, bound, hidden)),
            "outer": np.zeros((hidden, self.tower.width), np.float32),
            "outer_bias": np.zeros(self.tower.width, np.float32),
        }

    def loss(self, weights: Weights, features: Array, labels: Any) -> tuple[float, Weights, int]:
        """Return the loss on features [n, D], its gradients, and how many were named rightly."""
        scale = np.float32(self.task.logit_scale)
        inner, moved = moves(weights, features)  # [n, H], [n, W]
        texts, pull = self.tower.differentiate(weights["context"] + moved[:, None])  # [n, K, D]
        logits = scale * np.einsum("nkd,nd->nk", texts, features)
        loss, by_logits = cross_entropy(logits, labels)
        by_context = pull(scale * by_logits[:, :, None] * features[:, None])  # [n, M, W]
        by_moved = by_context.sum(axis=1)  # [n, W]
        by_inner = (by_moved @ weights["outer"].T) * (inner > 0)  # [n, H]
        gradients = {
            "context": by_context.sum(axis=0),
            "inner": features.T @ by_inner,
            "inner_bias": by_inner.sum(axis=0),
            "outer": inner.T @ by_moved,
            "outer_bias": by_moved.sum(axis=0),
        }
        return loss, gradients, int((logits.argmax(axis=1) == labels).sum())

    def learned(self, weights: Weights, told: Mapping[str, Any]) -> Learned:
        """Return context and network, with the tower that they belong to."""
        own = {"tower": self.tower.fingerprint, "tokens": self.tokens, "template": f"{self.words or '(drawn)'} {{}}."}
        return Learned(self.method, dict(weights), {**told, **own})
