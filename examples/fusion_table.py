"""Print the tables of docs/research/fusion.md: gains per stream, per kind of auxiliary features, per changed constant.

    python examples/fusion_table.py PACK... [--orders shuffle,class-sequential] [--seeds 0,1,2,3,4] [--oracle]

A PACK is a folder, or a corruption of the embedded photographs such as blur:1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosmic_tta import make_method
from cosmic_tta.data.images.corrupt import CORRUPTIONS, Corruption
from cosmic_tta.evaluation import EvaluationRun, oracle_fusion, run_evaluation
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.cosmic import fusion

METHODS = ("cosmic", "cosmic@paper", "bayes_means")
AUX_KINDS = ("given", "none", "random", "shuffled")
# Constants of the fusion, and the values that they are changed to, one at a time.
CHANGES: dict[str, tuple[Any, ...]] = {"PRIOR_SAMPLES": (0.0, 2.0, 50.0)}


def open_pack(name: str) -> FeaturePack:
    """Open a folder, or encode the embedded photographs with a corruption."""
    kind = name.partition(":")[0]
    return shifted_pack(Corruption.parse(name), 2000) if kind in CORRUPTIONS else FeaturePack.open(name)


@contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    """Change one constant of the fusion inside a `with` block."""
    before = getattr(fusion, name)
    setattr(fusion, name, value)
    try:
        yield
    finally:
        setattr(fusion, name, before)


@dataclass(frozen=True)
class FusionTables:
    """The tables of one pack."""

    pack: FeaturePack
    orders: Sequence[str]
    seeds: Sequence[int]

    def runs(self, method: str, order: str = "shuffle", aux: str = "given") -> list[EvaluationRun]:
        """Evaluate a method once per seed."""
        return [run_evaluation(make_method(method), self.pack, order=order, aux=aux, seed=seed) for seed in self.seeds]

    def gain(self, method: str, order: str) -> str:
        """Return the accuracy of a method minus that of zero-shot."""
        return mean_percent(self.runs(method, order), "gain")

    def print_streams(self) -> None:
        print(f"\n{self.pack.name}: accuracy minus zero-shot's, points\n")
        print_header("stream", METHODS)
        for order in self.orders:
            print_row(order, [self.gain(method, order) for method in METHODS])

    def print_oracle(self) -> None:
        assert self.pack.labels is not None
        runs = self.runs("cosmic@official")
        best = np.mean([oracle_fusion(run, self.pack.labels).oracle_acc1 for run in runs])
        print(f"\ncosmic@official, oracle (two weights searched on the labels), shuffled: {100 * best:.2f} %")

    def print_aux(self) -> None:
        print()
        print_header("auxiliary features", ("acc1", "ECE"))
        for aux in AUX_KINDS:
            runs = self.runs("cosmic", aux=aux)
            print_row(aux, [mean_percent(runs, metric) for metric in ("acc1", "ece")])

    def print_constants(self) -> None:
        print()
        print_header("constant", self.orders)
        for constant, values in CHANGES.items():
            for value in values:
                with changed(constant, value):
                    gains = [self.gain("cosmic", order) for order in self.orders]
                print_row(f"{constant} {getattr(fusion, constant)} → {value}", gains)


def mean_percent(runs: Sequence[EvaluationRun], metric: str) -> str:
    """Return the mean of a metric over runs, in percent with its sign."""
    return f"{100 * np.mean([run.report.metrics[metric] for run in runs]):+.2f}"


def print_header(first: str, columns: Sequence[str]) -> None:
    """Print the head of a markdown table."""
    print_row(first, columns)
    print(f"|---|{'---|' * len(columns)}")


def print_row(first: str, cells: Sequence[str]) -> None:
    """Print one row of a markdown table."""
    print(f"| {first} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+", metavar="PACK")
    parser.add_argument("--orders", default="given,shuffle,class-sequential,dirichlet,dominant")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--oracle", action="store_true", help="add the label-searched weights of cosmic@official")
    options = parser.parse_args()
    for name in options.packs:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        tables = FusionTables(open_pack(name), options.orders.split(","), seeds)
        tables.print_streams()
        if options.oracle and tables.pack.labels is not None:
            tables.print_oracle()
        tables.print_aux()
        tables.print_constants()


if __name__ == "__main__":
    main()
