"""Accuracies over seeds, and tables without empty columns: what several experiments share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.evaluation.evaluator import EvaluationRun
from cosmic_tta.evaluation.oracle import oracle_fusion
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Cell, Table
from cosmic_tta.reporting.paper.context import ExperimentContext

COSMIC_PRESETS = ("cosmic@paper", "cosmic@official", "cosmic")  # as printed, as the authors' program, our default
LABEL_FREE_NOTE = (
    "In our numbers no label of a stream reaches a method. cosmic@paper is the method as printed, cosmic@official the "
    "authors' program, both with fixed weights 1, 1, 1; cosmic is our default."
)


@dataclass(frozen=True)
class SeedAccuracies:
    """One accuracy in percent per seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        deviation = f" ± {self.deviation:.2f}" if len(self.values) > 1 else ""
        return f"{round(self.mean, 2) + 0.0:.2f}{deviation}"  # + 0.0: never -0.00


def over_seeds(context: ExperimentContext, measure: Callable[[int], float]) -> SeedAccuracies:
    """Measure a fraction from 0 to 1 for each seed."""
    return SeedAccuracies(tuple(100 * measure(seed) for seed in context.seeds))


def labels_in_order(run: EvaluationRun, pack: FeaturePack) -> Ints:
    """Return the labels of a run's images in the order of the stream; for counting alone."""
    assert pack.labels is not None  # experiments take labelled packs
    labels: Ints = np.asarray(pack.labels)[run.order]
    return labels


def top1_fraction(scores: Array, labels: Ints) -> float:
    """Return the fraction of rows whose highest score is that of the label."""
    return float((scores.argmax(axis=1) == labels).mean())


def accuracy(
    context: ExperimentContext, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any
) -> SeedAccuracies:
    """Return the accuracy of a method on a pack."""
    return over_seeds(context, lambda seed: context.run(spec, pack, seed, aux, **parameters).report.metrics["acc1"])


def oracle_accuracy(
    context: ExperimentContext, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any
) -> SeedAccuracies:
    """Return the accuracy with fusion weights searched on labels; only for columns with `oracle` in their name."""

    def measure(seed: int) -> float:
        run = context.run(spec, pack, seed, aux, **parameters)
        assert pack.labels is not None
        return oracle_fusion(run, pack.labels).oracle_acc1

    return over_seeds(context, measure)


def compact_table(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = "", keep: int = 1
) -> Table:
    """Return a table without its empty columns; the first `keep` columns always stay."""
    indices = [
        index
        for index in range(len(columns))
        if index < keep or any(row[index] is not None and row[index] != "" for row in rows)
    ]
    return Table(
        name,
        title,
        tuple(columns[index] for index in indices),
        [tuple(row[index] for index in indices) for row in rows],
        note,
    )


def stream_description(context: ExperimentContext, pack: FeaturePack) -> str:
    """Return the pack, the number of images and the seeds that a table was measured on."""
    images = len(pack) if context.limit is None else min(context.limit, len(pack))
    seeds = ", ".join(map(str, context.seeds))
    return f"{pack.name}: {images} images, shuffled, seed{'s' * (len(context.seeds) > 1)} {seeds}"
