"""What methods that are trained share: the training objective, its defaults, and the checkpoint that results."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.core.types import Support, Task
from cosmic_tta.methods.components.optim import AdamW, Parameters, Sgd

OPENING = "a photo of a"  # words that a context begins as


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The result of a training.

    Args:
        method: Name of the method that was trained.
        arrays: The trained arrays by name.
        metadata: How it was trained, ready for JSON: encoder, seed, shots, epochs, loss and accuracy.

    Examples:
        >>> Checkpoint("coop", {"context": np.zeros((4, 8), np.float32)}, {"seed": 0}).metadata["seed"]
        0
    """

    method: str
    arrays: Mapping[str, Array]
    metadata: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the arrays."""
        digest = hashlib.blake2b(self.method.encode(), digest_size=16)
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TrainingDefaults:
    """How a method is trained unless other values are given."""

    epochs: int
    rate: float
    batch: int
    optimiser: Callable[[], Sgd | AdamW] = Sgd
    rate_per_epoch: bool = True  # the learning rate changes per epoch; else per step
    warmup_rate: float = 0.0  # learning rate of the first epoch; 0: that of the schedule


class ObjectiveOptions(NamedTuple):
    """Options of methods that learn a context; an objective may ignore them."""

    tokens: int = 4  # context vectors
    words: str = OPENING  # words that the context begins as; empty: random vectors
    class_specific: bool = False  # one context per class


class TrainingObjective(ABC):
    """The training of one method: initial weights, a loss with its gradients, and the resulting checkpoint.

    Attributes:
        method: Name of the method that is trained.
        defaults: Epochs, learning rate, batch size and optimiser.
        per_class: Whether it can train one context per class.
    """

    method: ClassVar[str]
    defaults: ClassVar[TrainingDefaults]
    per_class: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, task: Task, support: Support, options: ObjectiveOptions) -> None:
        """Prepare the training on a support set; raise an InputError for what cannot be trained."""

    @abstractmethod
    def init_weights(self, seed: int) -> Parameters:
        """Return the weights before training."""

    @abstractmethod
    def loss(self, weights: Parameters, features: Array, labels: Any) -> tuple[float, Parameters, int]:
        """Return the loss on features [n, D], its gradients, and the number of correct predictions."""

    @abstractmethod
    def checkpoint(self, weights: Parameters, metadata: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint of some weights, with the metadata of the training and the objective's own."""


def require_checkpoint(checkpoint: Any, method: str) -> Checkpoint:
    """Return the checkpoint of a method, or raise a ParameterError that says how to get one."""
    if not isinstance(checkpoint, Checkpoint):
        raise ParameterError(
            f"{method} needs a checkpoint: `cosmic train {method} SUPPORT --out FILE.safetensors`, then "
            f"--checkpoint FILE.safetensors; in Python, checkpoint=cosmic_tta.training.read_checkpoint(FILE)."
        )
    if checkpoint.method != method:
        raise ParameterError(f"this checkpoint was trained for {checkpoint.method}, not for {method}.")
    return checkpoint


def check_support(support: Support, task: Task) -> None:
    """Raise an InputError for a support of other widths or classes than the task, or without a shot of a class."""
    if support.features.shape[1] != task.dim:
        raise InputError(
            f"the support's features are {support.features.shape[1]} wide, the class texts {task.dim} wide."
        )
    if support.class_names is not None and support.class_names != task.class_names:
        raise InputError("the support's classes are not the task's, or in another order; its labels would be false.")
    if not ((support.labels >= 0) & (support.labels < task.classes)).all():
        raise InputError(f"the support's labels must be 0 to {task.classes - 1}.")
    counts = np.bincount(support.labels, minlength=task.classes)
    empty = [task.class_names[k] for k in np.flatnonzero(counts == 0)]
    if empty:
        first = ", ".join(map(repr, empty[:5])) + (", ..." if len(empty) > 5 else "")
        raise InputError(
            f"the support has no shot of {len(empty)} of {task.classes} classes: {first}. "
            "Every class needs at least one."
        )
