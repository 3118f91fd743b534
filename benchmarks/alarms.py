"""How soon a switch of domains raises the alarm, and how often it rings without: `benchmarks/alarms.py PACK...`.

Packs of one task (the same classes, the same encoder) are switched between, each to each; every pack alone is run
through streams without a switch, and through one whose second half is moved in feature space.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

from cosmic_tta import Sample, Task, ZeroShot
from cosmic_tta.alarms import Watch
from cosmic_tta.packs import FeaturePack
from cosmic_tta.streams import make_stream

HALF, SOON = 600, 200  # images before and after a switch; within how many of them the alarm is in time
STEADY = ("shuffle", "long-tailed", "few-classes", "dirichlet", "class-sequential")


def raised(samples: Sequence[Sample], task: Task) -> list[int]:
    """Return the steps after which the alarm of drift was on."""
    method, watch = ZeroShot(), Watch()
    state, watched, on = method.init(task), watch.init(task.classes, task.dim), []
    for step, sample in enumerate(samples):
        watch.see(watched, sample, method.step(state, sample))
        if watched.drifted:
            on.append(step)
    return on


def report(name: str, runs: list[tuple[list[int], int | None]]) -> None:
    """Print in how many runs the alarm was on too early, and in how many in time."""
    false = sum(any(switch is None or step < switch for step in on) for on, switch in runs)
    line = f"{name}: without a switch in {false} of {len(runs)} runs"
    if runs[0][1] is not None:
        found = sum(any(switch is not None and switch <= step < switch + SOON for step in on) for on, switch in runs)
        line += f", within {SOON} images of it in {found}"
    print(line, flush=True)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    packs = [FeaturePack.open(folder) for folder in asked.packs]
    for one, other in permutations(packs, 2):
        if one.class_names == other.class_names and one.clip_model == other.clip_model:
            runs: list[tuple[list[int], int | None]] = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                halves = [(pack, rng.permutation(len(pack))[:HALF]) for pack in (one, other)]
                samples = [pack.sample(int(index)) for pack, order in halves for index in order]
                runs.append((raised(samples, one.task()), min(HALF, len(one))))
            report(f"{one.name} → {other.name}", runs)
    for pack in packs:
        for order in ("switching", *STEADY):
            runs = []
            for seed in seeds:
                stream = make_stream(order, pack, seed)
                samples = [stream.pack.sample(int(index)) for index in stream.order]
                runs.append((raised(samples, pack.task()), len(samples) // 2 if order == "switching" else None))
            report(f"{pack.name}, {order}", runs)


if __name__ == "__main__":
    main()
