"""Few-shot training of the methods that need it: an iterator of epochs, the same bits from the same seed.

A shot's place in its epoch comes from seed and epoch alone, so a training that was stopped goes on as if it had not
been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta import checkpoints
from cosmic_tta.core import Support, Task
from cosmic_tta.descent import AdamW, Sgd, Weights, cosine_rate
from cosmic_tta.errors import InputError, ParameterError, SnapshotError, unknown_name
from cosmic_tta.methods import LESSONS
from cosmic_tta.ops import Ints
from cosmic_tta.prompt_learning import OPENING, Learned, Lesson, check_support

MOST_SHOTS = 1024


@dataclass(frozen=True)
class Course:
    """How a method is trained; None takes the method's own recipe."""

    shots: int | None = None  # of each class; None: all that are there
    epochs: int | None = None
    rate: float | None = None
    batch: int | None = None
    tokens: int = 4
    words: str = OPENING  # that the context begins as; empty: drawn
    class_specific: bool = False  # CoOp: a context for each class, that serves no other
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (("shots", 1, MOST_SHOTS), ("epochs", 0, 10**6), ("batch", 1, 10**6), ("tokens", 1, 64)):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ParameterError(f"{name} must be {low} to {high}; given {value}.")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ParameterError(f"the rate must be above 0; given {self.rate:g}.")
        if self.seed < 0:
            raise ParameterError(f"the seed must not be negative; given {self.seed}.")


@dataclass(frozen=True)
class Epoch:
    """One epoch further."""

    done: int
    total: int
    loss: float  # mean over the epoch
    accuracy: float  # of the shots, while they taught
    learned: Learned


def drawn(support: Support, shots: int | None, seed: int) -> Support:
    """Draw so many shots of each class; a class with fewer is refused."""
    if shots is None:
        return support
    random, chosen = np.random.default_rng([seed, 2]), []
    for label in np.unique(support.labels):
        own = np.flatnonzero(support.labels == label)
        if len(own) < shots:
            name = support.class_names[label] if support.class_names else f"class {label}"
            raise InputError(f"{shots} shots were asked for; the support has {len(own)} of {name!r}.")
        chosen.append(np.sort(random.choice(own, shots, replace=False)))
    which: Ints = np.concatenate(chosen)
    return Support(support.features[which], support.labels[which], support.class_names)


def lesson_for(method: str, task: Task, support: Support, course: Course) -> Lesson:
    """Make a method's lesson; what cannot be taught is said here, before any work."""
    if method not in LESSONS:
        raise unknown_name("method that is trained", method, LESSONS)
    check_support(support, task)
    kind: Any = LESSONS[method]
    if course.class_specific and method != "coop":
        raise ParameterError(f"a context for each class is CoOp's; {method} has none.")
    extra = {"class_specific": True} if course.class_specific else {}
    arguments = (support,) if method == "tip_adapter_f" else (course.tokens, course.words)
    made: Lesson = kind(task, *arguments, **extra)
    return made


def train(
    method: str, task: Task, support: Support, course: Course | None = None, *, partial: Path | None = None
) -> Iterator[Epoch]:
    """Train a method on a support and yield after each epoch; the last one's `learned` is the result.

    Args:
        method: `coop`, `cocoop` or `tip_adapter_f`.
        task: the classes, with a text tower if the method needs one.
        support: labelled features, at least one of each class.
        course: how.
        partial: a file that keeps what is done; a course that finds its own there goes on from it.
    """
    course = course or Course()
    check_support(support, task)
    whole = support.digest
    support = drawn(support, course.shots, course.seed)
    lesson = lesson_for(method, task, support, course)
    recipe = lesson.recipe
    epochs = recipe.epochs if course.epochs is None else course.epochs
    rate, batch = course.rate or recipe.rate, course.batch or recipe.batch
    told: dict[str, Any] = {
        "clip": task.encoder,
        "seed": course.seed,
        "shots": int(np.bincount(support.labels).min()),
        "epochs": epochs,
        "rate": rate,
        "batch": batch,
        "support": support.digest,
        "drawn from": whole,
        "classes": blake2b("\n".join(task.class_names).encode(), digest_size=16).hexdigest(),
    }
    way = recipe.optimiser()
    weights, first, told["figures"] = lesson.begin(course.seed), 0, {}
    plan = {"course": asdict(course), **{key: told[key] for key in told if key != "figures"}}
    if partial is not None and partial.exists():
        weights, first, told["figures"] = _resumed(partial, method, plan, weights, way)
    yield Epoch(first, epochs, float("nan"), float("nan"), lesson.learned(weights, told))
    batches = -(-len(support.labels) // batch)
    for epoch in range(first, epochs):
        order = np.random.default_rng([course.seed, 3, epoch]).permutation(len(support.labels))
        losses = right = 0.0
        for place in range(batches):
            which = order[place * batch : (place + 1) * batch]
            loss, gradients, named = lesson.loss(weights, support.features[which], support.labels[which])
            if not np.isfinite(loss):
                raise InputError(
                    f"the loss is no longer a number in epoch {epoch + 1}; take a smaller rate than {rate:g}."
                )
            done = epoch if recipe.steady else epoch + place / batches
            now = recipe.warmup if recipe.warmup and epoch == 0 and epochs > 1 else cosine_rate(rate, done / epochs)
            weights = way.step(weights, gradients, now)
            losses, right = losses + loss * len(which), right + named
        loss, accuracy = losses / len(order), right / len(order)
        told["figures"] = {"loss": loss, "accuracy": accuracy}
        learned = lesson.learned(weights, told)
        if partial is not None:
            _keep(partial, method, plan, epoch + 1, weights, way, told["figures"])
        yield Epoch(epoch + 1, epochs, loss, accuracy, learned)
    if partial is not None:
        partial.unlink(missing_ok=True)


def _keep(
    file: Path, method: str, plan: Mapping[str, Any], done: int, weights: Weights, way: Sgd | AdamW, figures: Any
) -> None:
    arrays = {f"weights.{name}": value for name, value in weights.items()}
    arrays |= {f"way.{name}": value for name, value in way.arrays().items()}
    checkpoints.write(file, Learned(method, arrays, {"plan": plan, "done": done, "figures": figures}))


def _resumed(
    file: Path, method: str, plan: Mapping[str, Any], fresh: Weights, way: Sgd | AdamW
) -> tuple[Weights, int, Any]:
    kept = checkpoints.read(file)
    if kept.method != method or kept.told.get("plan") != plan:
        raise SnapshotError(f"{str(file)!r} was left by another training; remove it, or train with its settings.")
    weights = {name: kept.arrays.get(f"weights.{name}", value) for name, value in fresh.items()}
    way.resume({k.removeprefix("way."): value for k, value in kept.arrays.items() if k.startswith("way.")})
    return weights, int(kept.told["done"]), kept.told.get("figures", {})


def trained(method: str, task: Task, support: Support, course: Course | None = None) -> Learned:
    """Train a method to the end and return what it learned."""
    *_, last = train(method, task, support, course)
    return last.learned
