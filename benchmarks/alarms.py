"""How soon a switch of domains raises the drift alarm, and how often it is false: `benchmarks/alarms.py PACK...`.

A stream switches from each pack to each other one of the same task (same classes, same encoder). Every pack alone is
run through streams without a switch, and through one whose second half is shifted in feature space.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

from cosmic_tta import Sample, Task, ZeroShot
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.sessions.alarms import AlarmPolicy

HALF, IN_TIME = 600, 200  # images before and after a switch; an alarm within so many of them is in time
STEADY = ("shuffle", "long-tailed", "few-classes", "dirichlet", "class-sequential")


def steps_with_alarm(samples: Sequence[Sample], task: Task) -> list[int]:
    """Return the steps after which the drift alarm was active."""
    method, policy = ZeroShot(), AlarmPolicy()
    state, alarm_state, steps = method.init(task), policy.init(task.classes, task.dim), []
    for step, sample in enumerate(samples):
        policy.update(alarm_state, sample, method.step(state, sample))
        if alarm_state.drift_since:
            steps.append(step)
    return steps


def report(name: str, runs: list[tuple[list[int], int | None]]) -> None:
    """Print in how many runs the alarm was false, and in how many it was in time."""
    false = sum(any(switch is None or step < switch for step in on) for on, switch in runs)
    line = f"{name}: without a switch in {false} of {len(runs)} runs"
    if runs[0][1] is not None:
        found = sum(any(switch is not None and switch <= step < switch + IN_TIME for step in on) for on, switch in runs)
        line += f", within {IN_TIME} images of it in {found}"
    print(line, flush=True)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    packs = [FeaturePack.open(folder) for folder in arguments.packs]
    for one, other in permutations(packs, 2):
        if one.class_names == other.class_names and one.clip_model == other.clip_model:
            runs: list[tuple[list[int], int | None]] = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                halves = [(pack, rng.permutation(len(pack))[:HALF]) for pack in (one, other)]
                samples = [pack.sample(int(index)) for pack, order in halves for index in order]
                runs.append((steps_with_alarm(samples, one.task()), min(HALF, len(one))))
            report(f"{one.name} → {other.name}", runs)
    for pack in packs:
        for order in ("switching", *STEADY):
            runs = []
            for seed in seeds:
                stream = make_stream(order, pack, seed)
                samples = [stream.pack.sample(int(index)) for index in stream.order]
                switch = len(samples) // 2 if order == "switching" else None
                runs.append((steps_with_alarm(samples, pack.task()), switch))
            report(f"{pack.name}, {order}", runs)


if __name__ == "__main__":
    main()
