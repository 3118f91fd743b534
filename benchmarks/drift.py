"""Measure how methods follow a drift: embedded photographs that are clean, then under a severe shift, then clean again.

The columns: 600 clean photographs, then 1,200 shifted ones; the shifted ones alone; 600 clean, 600 shifted and 600
clean ones; 1,800 clean ones. Accuracy is measured over the last 600.

    OPENBLAS_NUM_THREADS=1 python benchmarks/drift.py [--methods bayes_means,cosmic] [--seeds 0,1,2] [--set KEY=VALUE]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from cosmic_tta import METHODS, Method, Sample, make_method
from cosmic_tta.core.arrays import Ints
from cosmic_tta.core.parameters import parse
from cosmic_tta.data.images.corrupt import CORRUPTIONS, Corruption
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack

PART = 600  # images; accuracy is measured over the last part of a stream
COLUMNS = ("after the shift", "afresh", "clean again", "always clean")


def gain(method: Method[Any], clean: FeaturePack, parts: list[tuple[FeaturePack, Ints]]) -> float:
    """Return the gain over zero-shot, in points, over the last part of a stream of parts of packs."""
    state = method.init(clean.task())
    hits, zero_shot_hits = [], []
    for pack, order in parts:
        assert pack.labels is not None
        for index in order.tolist():
            seen = method.step(state, Sample(pack.clip[index], None if pack.aux is None else pack.aux[index]))
            hits.append(seen.label == pack.labels[index])
            zero_shot_hits.append(seen.parts["zero_shot"].argmax() == pack.labels[index])
    return 100 * float(np.mean(hits[-PART:]) - np.mean(zero_shot_hits[-PART:]))


def gains(method: Method[Any], clean: FeaturePack, shifted: FeaturePack, seed: int) -> tuple[float, ...]:
    """Return the gains of `COLUMNS` for one shift and one order of the photographs."""
    first, shift, last = np.split(np.random.default_rng(seed).permutation(3 * PART), [PART, 2 * PART])
    shift, middle = np.concatenate([shift, last]), shift
    return (
        gain(method, clean, [(clean, first), (shifted, shift)]),
        gain(method, clean, [(shifted, shift)]),
        gain(method, clean, [(clean, first), (shifted, middle), (clean, last)]),
        gain(method, clean, [(clean, first), (clean, middle), (clean, last)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="bayes_means", help="methods, with commas between")
    parser.add_argument("--seeds", default="0,1,2", help="orders of the photographs, with commas between")
    parser.add_argument("--severity", type=int, default=5, help="severity of the shifts, 1 to 5")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the methods")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    clean = shifted_pack(None, 3 * PART)
    packs = {kind: shifted_pack(Corruption(kind, options.severity), 3 * PART) for kind in CORRUPTIONS}
    for name in options.methods.split(","):
        pairs = [text.split("=", 1) for text in options.set]
        method = make_method(name, **{key: parse(METHODS[name], key, value) for key, value in pairs})
        print(f"\n{name}: gain over zero-shot in points\n")
        print(f"| shift | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
        rows = {}
        for kind, shifted in packs.items():
            rows[kind] = np.mean([gains(method, clean, shifted, seed) for seed in seeds], axis=0)
            print(f"| {kind} {options.severity} | {' | '.join(f'{value:+.2f}' for value in rows[kind])} |", flush=True)
        print(f"| mean | {' | '.join(f'{value:+.2f}' for value in np.mean(list(rows.values()), axis=0))} |")


if __name__ == "__main__":
    main()
