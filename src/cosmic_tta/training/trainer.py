"""Few-shot training of the methods that need it: an iterator of epochs, with the same bits for the same seed.

The order of the shots depends on seed and epoch alone. A training that was stopped therefore continues as if it had
not been stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Ints
from cosmic_tta.core.errors import InputError, ParameterError, SnapshotError, unknown_name
from cosmic_tta.core.types import Support, Task
from cosmic_tta.methods import OBJECTIVES
from cosmic_tta.methods.components.optim import AdamW, Parameters, Sgd, cosine_rate
from cosmic_tta.methods.components.training import (
    OPENING,
    Checkpoint,
    ObjectiveOptions,
    TrainingObjective,
    check_support,
)
from cosmic_tta.training import checkpoint_file

MAX_SHOTS = 1024


@dataclass(frozen=True)
class TrainingConfig:
    """How a method is trained. None takes the default of the method.

    Args:
        shots: Shots per class, drawn at random. None: all of the support.
        epochs: Passes over the shots.
        rate: Learning rate.
        batch: Shots per step.
        tokens: Context vectors, for methods that learn a context.
        words: Words that the context begins as. Empty: random vectors.
        class_specific: One context per class, for CoOp. It works for no other classes.
        seed: Seed of the shots, their order and random vectors.

    Raises:
        ParameterError: A value is out of range.

    Examples:
        >>> TrainingConfig(shots=16, epochs=2).shots
        16
    """

    shots: int | None = None
    epochs: int | None = None
    rate: float | None = None
    batch: int | None = None
    tokens: int = 4
    words: str = OPENING
    class_specific: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (("shots", 1, MAX_SHOTS), ("epochs", 0, 10**6), ("batch", 1, 10**6), ("tokens", 1, 64)):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ParameterError(f"{name} must be {low} to {high}; given {value}.")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ParameterError(f"the rate must be above 0; given {self.rate:g}.")
        if self.seed < 0:
            raise ParameterError(f"the seed must not be negative; given {self.seed}.")

    @property
    def options(self) -> ObjectiveOptions:
        """The options of methods that learn a context."""
        return ObjectiveOptions(self.tokens, self.words, self.class_specific)


@dataclass(frozen=True)
class EpochResult:
    """The result after an epoch; number 0 is before training.

    Args:
        done: Epochs that are done.
        total: Epochs in all.
        loss: Mean loss of the epoch; NaN before the first.
        accuracy: Share of the shots that were predicted correctly during the epoch.
        checkpoint: What was learned so far.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=200, dim=16)
        >>> *_, last = train("tip_adapter_f", pack.task(), pack.support(), TrainingConfig(epochs=2))
        >>> last.done, last.total, last.checkpoint.method
        (2, 2, 'tip_adapter_f')
    """

    done: int
    total: int
    loss: float
    accuracy: float
    checkpoint: Checkpoint


def draw_shots(support: Support, shots: int | None, seed: int) -> Support:
    """Draw shots per class at random.

    Args:
        support: Labelled features.
        shots: Shots per class. None returns the whole support.
        seed: Seed of the draw.

    Returns:
        The drawn shots.

    Raises:
        InputError: A class has fewer.

    Examples:
        >>> draw_shots(Support(np.eye(4), [0, 0, 1, 1]), 1, seed=0).labels.tolist()
        [0, 1]
    """
    if shots is None:
        return support
    random, chosen = np.random.default_rng([seed, 2]), []
    for label in np.unique(support.labels):
        own = np.flatnonzero(support.labels == label)
        if len(own) < shots:
            name = support.class_names[label] if support.class_names else f"class {label}"
            raise InputError(f"{shots} shots were asked for; the support has {len(own)} of {name!r}.")
        chosen.append(np.sort(random.choice(own, shots, replace=False)))
    rows: Ints = np.concatenate(chosen)
    return Support(support.features[rows], support.labels[rows], support.class_names)


def make_objective(method: str, task: Task, support: Support, config: TrainingConfig) -> TrainingObjective:
    """Make the training objective of a method; what cannot be trained raises an error before any work."""
    if method not in OBJECTIVES:
        raise unknown_name("method that is trained", method, OBJECTIVES)
    check_support(support, task)
    kind = OBJECTIVES[method]
    if config.class_specific and not kind.per_class:
        raise ParameterError(f"one context per class is CoOp's option; {method} has none.")
    return kind(task, support, config.options)


def train(
    method: str, task: Task, support: Support, config: TrainingConfig | None = None, *, partial: Path | None = None
) -> Iterator[EpochResult]:
    """Train a method on a support set, and yield before the first and after each epoch.

    Args:
        method: `coop`, `cocoop`, `tip_adapter_f`, or a registered one.
        task: The classes, with a text tower if the method needs one.
        support: Labelled features, at least one per class.
        config: How to train.
        partial: File of unfinished work. A training with the same settings continues from it; it is removed at the
            end.

    Yields:
        The result of each epoch. The checkpoint of the last one is the result of the training.

    Raises:
        InputError: Task or support cannot be used, or the loss is no longer finite.
        SnapshotError: The partial file is of another training.

    Examples:
        >>> task, support = Task(("cat", "dog"), np.eye(2)), Support(np.eye(2), [0, 1])
        >>> [epoch.done for epoch in train("tip_adapter_f", task, support, TrainingConfig(epochs=2))]
        [0, 1, 2]
    """
    config = config or TrainingConfig()
    check_support(support, task)
    drawn_from = support.digest
    support = draw_shots(support, config.shots, config.seed)
    training = _Training(make_objective(method, task, support, config), support, config)
    plan = {"config": asdict(config), **training.describe(task, drawn_from)}
    first, results = 0, dict[str, float]()
    if partial is not None and partial.exists():
        first, results = training.resume(checkpoint_file.read(partial), plan, partial)
    metadata = training.describe(task, drawn_from)
    checkpoint = training.objective.checkpoint(training.weights, {**metadata, "figures": results})
    yield EpochResult(first, training.epochs, float("nan"), float("nan"), checkpoint)
    for epoch in range(first, training.epochs):
        loss, accuracy = training.run_epoch(epoch)
        results = {"loss": loss, "accuracy": accuracy}
        checkpoint = training.objective.checkpoint(training.weights, {**metadata, "figures": results})
        if partial is not None:
            checkpoint_file.write(partial, training.unfinished(plan, epoch + 1, results))
        yield EpochResult(epoch + 1, training.epochs, loss, accuracy, checkpoint)
    if partial is not None:
        partial.unlink(missing_ok=True)


class _Training:
    """The changing parts of a training: weights and optimiser."""

    def __init__(self, objective: TrainingObjective, support: Support, config: TrainingConfig) -> None:
        defaults = objective.defaults
        self.objective, self.support, self.seed = objective, support, config.seed
        self.epochs = defaults.epochs if config.epochs is None else config.epochs
        self.rate, self.batch = config.rate or defaults.rate, config.batch or defaults.batch
        self.weights: Parameters = objective.init_weights(config.seed)
        self.optimiser: Sgd | AdamW = defaults.optimiser()

    def describe(self, task: Task, drawn_from: str) -> dict[str, Any]:
        """Return the metadata of the checkpoint, without the results."""
        return {
            "clip": task.encoder,
            "seed": self.seed,
            "shots": int(np.bincount(self.support.labels).min()),
            "epochs": self.epochs,
            "rate": self.rate,
            "batch": self.batch,
            "support": self.support.digest,
            "drawn_from": drawn_from,
            "classes": blake2b("\n".join(task.class_names).encode(), digest_size=16).hexdigest(),
        }

    def run_epoch(self, epoch: int) -> tuple[float, float]:
        """Train for one epoch; return mean loss and accuracy."""
        support, batches = self.support, -(-len(self.support.labels) // self.batch)
        order = np.random.default_rng([self.seed, 3, epoch]).permutation(len(support.labels))
        losses = correct = 0.0
        for number in range(batches):
            rows = order[number * self.batch : (number + 1) * self.batch]
            loss, gradients, hits = self.objective.loss(self.weights, support.features[rows], support.labels[rows])
            if not np.isfinite(loss):
                raise InputError(
                    f"the loss is no longer finite in epoch {epoch + 1}; use a smaller rate than {self.rate:g}."
                )
            rate = self._rate(epoch, number / batches)
            self.weights = self.optimiser.step(self.weights, gradients, rate)
            losses, correct = losses + loss * len(rows), correct + hits
        return losses / len(order), correct / len(order)

    def _rate(self, epoch: int, share: float) -> float:
        """Return the learning rate after a share of an epoch."""
        defaults = self.objective.defaults
        if defaults.warmup_rate and epoch == 0 and self.epochs > 1:
            return defaults.warmup_rate
        done = epoch if defaults.rate_per_epoch else epoch + share
        return cosine_rate(self.rate, done / self.epochs)

    def unfinished(self, plan: Mapping[str, Any], done: int, results: Mapping[str, float]) -> Checkpoint:
        """Return weights and optimiser as a checkpoint, to continue from."""
        arrays = {f"weights.{name}": value for name, value in self.weights.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self.optimiser.arrays().items()}
        return Checkpoint(self.objective.method, arrays, {"plan": plan, "done": done, "figures": results})

    def resume(self, kept: Checkpoint, plan: Mapping[str, Any], file: Path) -> tuple[int, Any]:
        """Continue from an unfinished training; return its epochs and results."""
        if kept.method != self.objective.method or kept.metadata.get("plan") != plan:
            raise SnapshotError(f"{str(file)!r} was left by another training; remove it, or train with its settings.")
        self.weights = {name: kept.arrays.get(f"weights.{name}", value) for name, value in self.weights.items()}
        prefix = "optimiser."
        self.optimiser.resume({k.removeprefix(prefix): v for k, v in kept.arrays.items() if k.startswith(prefix)})
        return int(kept.metadata["done"]), kept.metadata.get("figures", {})


def train_to_end(method: str, task: Task, support: Support, config: TrainingConfig | None = None) -> Checkpoint:
    """Train a method to the end.

    Args:
        method: As for `train`.
        task: As for `train`.
        support: As for `train`.
        config: As for `train`.

    Returns:
        The checkpoint.

    Raises:
        InputError: As for `train`.

    Examples:
        >>> task, support = Task(("cat", "dog"), np.eye(2)), Support(np.eye(2), [0, 1])
        >>> train_to_end("tip_adapter_f", task, support, TrainingConfig(epochs=1)).metadata["shots"]
        1
    """
    *_, last = train(method, task, support, config)
    return last.checkpoint
