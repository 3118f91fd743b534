"""What the methods that learn have in common: contexts, lessons, and what a training leaves behind."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cosmic_tta.core import Support, Task, TextTower
from cosmic_tta.descent import AdamW, Sgd, Weights, mean_entropy
from cosmic_tta.errors import InputError, ParameterError
from cosmic_tta.ops import Array, as_float32

OPENING = "a photo of a"
SPREAD = 0.02  # of a context vector that is drawn
INSTALL = "pip install 'cosmic-tta[torch]'"


@dataclass(frozen=True, eq=False)
class Learned:
    """What a training left behind: arrays by name, and what is told of them."""

    method: str
    arrays: Mapping[str, Array]
    told: Mapping[str, Any]  # ready for JSON: tower, tokens, seed, shots, figures

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the arrays."""
        made = hashlib.blake2b(self.method.encode(), digest_size=16)
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            made.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
        return made.hexdigest()


@dataclass(frozen=True)
class Recipe:
    """How a method is trained unless told otherwise."""

    epochs: int
    rate: float
    batch: int
    optimiser: Callable[[], Sgd | AdamW] = Sgd
    steady: bool = True  # the rate falls from epoch to epoch; else from step to step
    warmup: float = 0.0  # the rate of the first epoch; 0: the schedule's own


class Lesson(ABC):
    """One method's training: where it begins, and its loss on labelled features with the gradients."""

    method: ClassVar[str]
    recipe: ClassVar[Recipe]

    @abstractmethod
    def begin(self, seed: int) -> Weights:
        """Return the weights before training."""

    @abstractmethod
    def loss(self, weights: Weights, features: Array, labels: Any) -> tuple[float, Weights, int]:
        """Return the loss on features [n, D], its gradients, and how many were named rightly."""

    @abstractmethod
    def learned(self, weights: Weights, told: Mapping[str, Any]) -> Learned:
        """Return what is kept of the weights, with what is told of it."""


def tower_of(task: Task, method: str) -> TextTower:
    """Return the task's text tower, or say how it gets one."""
    if task.tower is None:
        raise InputError(
            f"{method} learns through the text tower, and this task has none. On the command line it is attached by "
            "itself; in Python: pack.with_tower(make_tower(pack.clip_model, pack.class_names)), make_tower from "
            f"cosmic_tta.encoders. It needs torch: {INSTALL}."
        )
    return task.tower


def first_context(tower: TextTower, tokens: int, seed: int, words: str = OPENING) -> Array:
    """Return so many context vectors [M, W]: the last embeddings of some words, before them drawn ones."""
    tower.require(tokens)
    known = tower.opening(words)[-tokens:] if words else np.zeros((0, tower.width), np.float32)
    drawn = np.random.default_rng(seed).standard_normal((tokens - len(known), tower.width)) * SPREAD
    return as_float32(np.concatenate([drawn, known]))


def tuned(
    tower: TextTower, context: Array, views: Array, logit_scale: float, rate: float, steps: int
) -> tuple[Array, Array]:
    """Lower the entropy of the mean prediction of some views [n, D]; return the context and its class texts.

    A step costs one pass through the text tower and back; the views' features stay as they are.
    """
    scale, way = np.float32(logit_scale), AdamW()
    for _ in range(steps):
        texts, pull = tower.differentiate(context)
        _, by_logits = mean_entropy(scale * (views @ texts.T))
        gradient = pull(scale * (by_logits.T @ views))  # [M, W]
        context = way.step({"context": context}, {"context": gradient}, rate)["context"]
    return context, tower.texts(context)


def checked(learned: Any, method: str) -> Learned:
    """Return a method's checkpoint, or say how one is made."""
    if not isinstance(learned, Learned):
        raise ParameterError(
            f"{method} needs what a training left behind: `cosmic train {method} SUPPORT --out FILE.safetensors`, then "
            f"--checkpoint FILE.safetensors; in Python, checkpoint=cosmic_tta.checkpoints.read(FILE)."
        )
    if learned.method != method:
        raise ParameterError(f"this checkpoint was trained for {learned.method}, not for {method}.")
    return learned


def same_tower(learned: Learned, tower: TextTower) -> None:
    """Refuse what was learned through another text tower."""
    if learned.told.get("tower") != tower.fingerprint:
        raise InputError(
            f"this checkpoint was trained through another text tower: that of {learned.told.get('clip', 'no name')!r} "
            f"(weights {learned.told.get('tower')}), here are {tower.fingerprint}. Train anew with this encoder, or "
            "take a pack of that one."
        )


def check_support(support: Support, task: Task) -> None:
    """Refuse a support that cannot teach this task: other widths or classes, or a class without a shot."""
    if support.features.shape[1] != task.dim:
        raise InputError(
            f"the support's features are {support.features.shape[1]} wide, the class texts {task.dim} wide."
        )
    if support.class_names is not None and support.class_names != task.class_names:
        raise InputError("the support's classes are not the task's, or in another order; its labels would mislead.")
    if not ((support.labels >= 0) & (support.labels < task.classes)).all():
        raise InputError(f"the support's labels must be 0 to {task.classes - 1}.")
    counts = np.bincount(support.labels, minlength=task.classes)
    bare = [task.class_names[k] for k in np.flatnonzero(counts == 0)]
    if bare:
        few = ", ".join(map(repr, bare[:5])) + (", ..." if len(bare) > 5 else "")
        raise InputError(
            f"the support has no shot of {len(bare)} of {task.classes} classes: {few}. Every class needs one at least."
        )
