"""Context vectors before the class names: their initial values, and tuning by entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Array, as_float32
from cosmic_tta.core.errors import InputError, install_extra
from cosmic_tta.core.types import PromptTower, Task
from cosmic_tta.methods.components.optim import AdamW, mean_entropy
from cosmic_tta.methods.components.training import OPENING, Checkpoint, ObjectiveOptions

INITIAL_STD = 0.02  # standard deviation of random context vectors
INSTALL = install_extra("torch")


def require_tower(task: Task, method: str) -> PromptTower:
    """Return the text tower of a task, or raise an InputError that says how to attach one."""
    if task.tower is None:
        raise InputError(
            f"{method} learns through the text tower, and this task has none. The command line attaches it; in Python: "
            "pack.with_tower(make_tower(pack.clip_model, pack.class_names)) with make_tower from cosmic_tta.encoders. "
            f"It needs torch: {INSTALL}."
        )
    return task.tower


def init_context(tower: PromptTower, tokens: int, seed: int, words: str = OPENING) -> Array:
    """Return initial context vectors [M, W]: embeddings of words, and random vectors before them.

    Args:
        tower: The text tower.
        tokens: Number of context vectors, M.
        seed: Seed of the random ones.
        words: Their last `tokens` words are used.
    """
    tower.require(tokens)
    known = tower.opening(words)[-tokens:] if words else np.zeros((0, tower.width), np.float32)
    random = np.random.default_rng(seed).standard_normal((tokens - len(known), tower.width)) * INITIAL_STD
    return as_float32(np.concatenate([random, known]))


def tune_context(
    tower: PromptTower, context: Array, views: Array, logit_scale: float, rate: float, steps: int
) -> tuple[Array, Array]:
    """Lower the entropy of the mean prediction of views by gradient descent on the context.

    A step costs one forward and one backward pass of the text tower. The features of the views do not change.

    Args:
        tower: The text tower.
        context: Context vectors to begin with, [M, W].
        views: Features of the views, [n, D].
        logit_scale: Factor of the cosines.
        rate: Learning rate of AdamW.
        steps: Number of steps.

    Returns:
        The tuned context and its class texts.
    """
    scale, optimiser = np.float32(logit_scale), AdamW()
    for _ in range(steps):
        texts, pull = tower.differentiate(context)
        _, by_logits = mean_entropy(scale * (views @ texts.T))
        gradient = pull(scale * (by_logits.T @ views))  # [M, W]
        context = optimiser.step({"context": context}, {"context": gradient}, rate)["context"]
    return context, tower.texts(context)


def check_same_tower(checkpoint: Checkpoint, tower: PromptTower) -> None:
    """Raise an InputError for a checkpoint that was trained through another text tower."""
    metadata = checkpoint.metadata
    if metadata.get("tower") != tower.fingerprint:
        raise InputError(
            f"this checkpoint was trained through another text tower: that of {metadata.get('clip', 'no name')!r} "
            f"(weights {metadata.get('tower')}), here are {tower.fingerprint}. Train again with this encoder, or "
            "use a pack of that one."
        )


def context_metadata(tower: PromptTower, options: ObjectiveOptions) -> dict[str, Any]:
    """Return what a checkpoint says of a trained context: its tower, its length, the template it began as."""
    template = f"{options.words or '(random)'} {{}}."
    return {"tower": tower.fingerprint, "tokens": options.tokens, "template": template}
