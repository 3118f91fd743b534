"""What experiments count alike: accuracies over seeds, tables without empty columns, names of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from cosmic_tta.charts import Cell, Table
from cosmic_tta.evaluate import Run
from cosmic_tta.experiments.context import Context
from cosmic_tta.oracle import oracle_fusion
from cosmic_tta.packs import FeaturePack

BASES = ("cosmic@paper", "cosmic@official", "cosmic")  # as printed, as published, ours; all without labels
LABEL_FREE = (
    "Ours: no label of a stream reaches a method. cosmic@paper is the method as printed and cosmic@official the "
    "authors' program, both with fixed weights 1, 1, 1; cosmic is our default."
)


@dataclass(frozen=True)
class Spread:
    """Percentages over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """Their deviation; 0 of a single one."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        deviation = f" ± {self.deviation:.2f}" if len(self.values) > 1 else ""
        return f"{round(self.mean, 2) + 0.0:.2f}{deviation}"  # + 0.0: never -0.00


def over_seeds(context: Context, measure: Callable[[int], float]) -> Spread:
    """Measure a fraction of one for each seed, in percent."""
    return Spread(tuple(100 * measure(seed) for seed in context.seeds))


def truth(run: Run, pack: FeaturePack) -> Any:
    """Return the labels of a run's images, in its order: the evaluator's, for counting alone."""
    assert pack.labels is not None  # experiments take labelled packs
    return np.asarray(pack.labels)[run.order]


def hits(scores: Any, true: Any) -> float:
    """Return the share of rows whose highest score is the true class's."""
    return float((scores.argmax(axis=1) == true).mean())


def accuracy(context: Context, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any) -> Spread:
    """Return a method's accuracy on a pack, in percent."""
    return over_seeds(context, lambda seed: context.run(spec, pack, seed, aux, **parameters).report.metrics["acc1"])


def oracle_accuracy(context: Context, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any) -> Spread:
    """Return what label-searched weights would have reached; for stamped columns alone."""

    def measure(seed: int) -> float:
        run = context.run(spec, pack, seed, aux, **parameters)
        assert pack.labels is not None
        return oracle_fusion(run, pack.labels).oracle_acc1

    return over_seeds(context, measure)


def compact(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = "", keep: int = 1
) -> Table:
    """Make a table without the columns that are empty, the first `keep` aside."""
    places = [
        place
        for place in range(len(columns))
        if place < keep or any(row[place] is not None and row[place] != "" for row in rows)
    ]
    return Table(
        name,
        title,
        tuple(columns[place] for place in places),
        [tuple(row[place] for place in places) for row in rows],
        note,
    )


def conditions(context: Context, pack: FeaturePack) -> str:
    """Say on what a table was measured."""
    images = len(pack) if context.limit is None else min(context.limit, len(pack))
    seeds = ", ".join(map(str, context.seeds))
    return f"{pack.name}: {images} images, shuffled, seed{'s' * (len(context.seeds) > 1)} {seeds}"
