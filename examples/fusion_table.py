"""The tables of docs/fusion.md: streams, auxiliary features, and every constant of the fusion changed alone.

python examples/fusion_table.py PACK... [--orders shuffle,class-sequential] [--seeds 0,1,2,3,4] [--oracle]
A PACK is a folder, or a shift of the embedded photographs such as blur:1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cosmic_tta import fusion, make_method
from cosmic_tta.corruptions import CORRUPTIONS, Corruption
from cosmic_tta.demo import shifted_pack
from cosmic_tta.evaluate import Run, score
from cosmic_tta.oracle import oracle_fusion
from cosmic_tta.packs import FeaturePack

METHODS = ("cosmic", "cosmic@paper", "bayes_means")
AUX = ("given", "none", "random", "shuffled")
CHANGES: dict[str, tuple[Any, ...]] = {
    "CAUTION": (0.0, 0.5, 2.0),
    "PATIENCE": (5.0, 80.0),
    "APART": (1e-6, 0.3, 0.6),
    "PRIOR": ((1.0, 0.01), (16.0, 0.01), (4.0, 0.0025), (4.0, 0.04)),
    "LEAST": (0.05, 0.5),
}


def open_pack(name: str) -> FeaturePack:
    """Open a folder, or encode the embedded photographs under a shift."""
    kind = name.partition(":")[0]
    return shifted_pack(Corruption.parse(name), 2000) if kind in CORRUPTIONS else FeaturePack.open(name)


@contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    """Change one constant of the fusion for a while."""
    before = getattr(fusion, name)
    setattr(fusion, name, value)
    try:
        yield
    finally:
        setattr(fusion, name, before)


def cell(runs: list[Run], key: Callable[[dict[str, Any]], float]) -> str:
    return f"{100 * np.mean([key(dict(run.report.metrics)) for run in runs]):+.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+")
    parser.add_argument("--orders", default="given,shuffle,class-sequential,dirichlet,dominant")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--oracle", action="store_true", help="add the label-searched weights of cosmic@official")
    given = parser.parse_args()
    seeds, orders = [int(seed) for seed in given.seeds.split(",")], given.orders.split(",")
    for name in given.packs:
        pack = open_pack(name)

        def runs(method: str, order: str = "shuffle", aux: str = "given", pack: FeaturePack = pack) -> list[Run]:
            return [score(make_method(method), pack, order=order, aux=aux, seed=seed) for seed in seeds]

        print(f"\n{pack.name}: accuracy minus zero-shot's, points\n\n| stream | {' | '.join(METHODS)} |")
        print(f"|---|{'---|' * len(METHODS)}")
        for order in orders:
            cells = [
                cell(runs(method, order), lambda told: told["acc1"] - told["zero_shot_acc1"]) for method in METHODS
            ]
            print(f"| {order} | {' | '.join(cells)} |")
        if given.oracle and pack.labels is not None:
            best = np.mean([oracle_fusion(run, pack.labels).oracle_acc1 for run in runs("cosmic@official")])
            print(f"\ncosmic@official, oracle (two weights searched on the labels), shuffled: {100 * best:.2f} %")
        print("\n| auxiliary features | acc1 | ECE |\n|---|---|---|")
        for aux in AUX:
            told = runs("cosmic", aux=aux)
            print(f"| {aux} | {cell(told, lambda m: m['acc1'])} | {cell(told, lambda m: m['ece'])} |")
        print(f"\n| constant | {' | '.join(orders)} |\n|---|{'---|' * len(orders)}")
        for constant, values in CHANGES.items():
            for value in values:
                with changed(constant, value):
                    cells = [cell(runs("cosmic", order), lambda m: m["acc1"] - m["zero_shot_acc1"]) for order in orders]
                print(f"| {constant} {getattr(fusion, constant)} → {value} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
