"""Example images of a run: some that adaptation corrected, some that were correct before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.evaluation.evaluator import EvaluationRun
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.source_images import Pixels, image_of_row
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.embedded_packs import embedded_pack

MAX_EXAMPLES = 8
EMBEDDED_IMAGES = 600  # used if the images of no pack are available
ILLUSTRATION_NOTE = (
    "The images were chosen by label, first those that adaptation corrected. They are illustrations, not evidence."
)


@dataclass(frozen=True, eq=False)
class ExampleImage:
    """One image of a run."""

    step: int
    index: int  # in the pack
    image: Pixels | None


def pack_with_images(context: ExperimentContext) -> tuple[FeaturePack, list[str]]:
    """Return the first pack whose images are available, else the embedded one; and a sentence per skipped pack."""
    missing: list[str] = []
    for pack in context.evaluated_packs:
        if image_of_row(pack, 0) is not None:
            return pack, missing
        missing.append(f"{pack.name}: its images are not available; the embedded photographs are shown instead.")
    return embedded_pack(EMBEDDED_IMAGES), missing


def choose_examples(run: EvaluationRun, pack: FeaturePack, count: int = MAX_EXAMPLES) -> list[ExampleImage]:
    """Choose images of different classes: first those that adaptation corrected, then correct ones, then others."""
    after, before = run.scores.argmax(axis=1), run.parts["zero_shot"].argmax(axis=1)
    labels = after if pack.labels is None else np.asarray(pack.labels)[run.order]
    rank = np.where(after == labels, np.where(before != labels, 0, 1), 2)
    # The second half of the stream first: by then the caches are filled.
    steps = sorted(range(len(after)), key=lambda step: (rank[step], step < len(after) // 2, step))
    chosen: list[int] = []
    for per_class in range(count):
        classes = [int(labels[step]) for step in chosen]
        chosen += [
            step
            for step in _first_per_class(steps, labels)
            if step not in chosen and classes.count(int(labels[step])) <= per_class
        ]
        steps = [step for step in steps if step not in chosen]
        if len(chosen) >= count:
            break
    return [
        ExampleImage(step, int(run.order[step]), image_of_row(pack, int(run.order[step]))) for step in chosen[:count]
    ]


def _first_per_class(steps: Sequence[int], labels: Array) -> list[int]:
    first: dict[int, int] = {}
    for step in steps:
        first.setdefault(int(labels[step]), step)
    return list(first.values())


def true_class(pack: FeaturePack, example: ExampleImage) -> str | None:
    """Return the name of an example's class; None if the pack has no labels."""
    return None if pack.labels is None else pack.class_names[int(np.asarray(pack.labels)[example.index])]


def top_classes(names: Sequence[str], scores: Array, count: int = 5) -> list[tuple[str, float]]:
    """Return the classes with the highest scores above zero, and their scores."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [(names[int(k)], float(scores[k])) for k in order if scores[k] > 0]
