"""Timing: several callers take turns on the same samples, and each gets the median of its times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time
from typing import Any

from cosmic_tta.cli.bench.workload import FeatureStream
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Sample

CALLS_PER_TURN = 10
MIN_SECONDS = 50e-6  # a call without a sample that is shorter is repeated

TimedCall = Callable[[Sample], float | None]  # returns its seconds; None if the call is not to be counted


def timed_steps(method: Method[Any], state: Any, clock: Callable[[], float] = process_time) -> TimedCall:
    """Return a call that steps the method. A step on which the schedule rebuilds the graphs is not counted."""
    every = getattr(method, "rebuild_every", 0) if getattr(method, "rebuild", "") == "scheduled" else 0

    def step(sample: Sample) -> float | None:
        rebuilds = every and state.seen % every == 0
        start = clock()
        method.step(state, sample)
        seconds = clock() - start
        return None if rebuilds else seconds

    return step


def timed_call(call: Callable[[], object]) -> TimedCall:
    """Return a timed call that ignores the sample. It is repeated until the clock can measure it."""
    repeat = 1
    while (seconds := cpu_seconds(call, repeat)) < MIN_SECONDS:
        repeat = 1 + int(1.5 * repeat * MIN_SECONDS / max(seconds, MIN_SECONDS / 10))
    return lambda sample: cpu_seconds(call, repeat) / repeat


def cpu_seconds(call: Callable[[], object], repeat: int = 1) -> float:
    """Return the CPU time of calling a function `repeat` times."""
    start = process_time()
    for _ in range(repeat):
        call()
    return process_time() - start


def take_turns(
    calls: Mapping[str, TimedCall], stream: FeatureStream, count: int, per_turn: int = CALLS_PER_TURN
) -> dict[str, list[float]]:
    """Give every call the same samples, a few at a time, and return the times of each in ms.

    Whatever slows the machine down slows all of them, so that their ratios stay comparable.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for start in range(0, count, per_turn):
        samples = stream.take(min(per_turn, count - start))
        for name, call in calls.items():
            times[name] += [1e3 * seconds for seconds in map(call, samples) if seconds is not None]
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the median per name.

    >>> medians({"step": [3.0, 1.0, 2.0]})
    {'step': 2.0}
    """
    return {name: median(values) for name, values in times.items()}
