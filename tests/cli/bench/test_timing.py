from __future__ import annotations

from itertools import count

from cosmic_tta.cli.bench.timing import MIN_SECONDS, cpu_seconds, medians, take_turns, timed_call, timed_steps
from cosmic_tta.cli.bench.workload import FeatureStream, official_cosmic, state_with_graphs
from cosmic_tta.core.types import Sample


def test_calls_take_turns_on_the_same_samples() -> None:
    seen: list[tuple[str, int]] = []

    def call(name: str, sample: Sample) -> float | None:
        seen.append((name, id(sample)))
        return None if name == "b" and len(seen) < 5 else 0.002

    calls = {name: lambda sample, name=name: call(name, sample) for name in ("a", "b")}
    times = take_turns(calls, FeatureStream(4, 8, None), count=5, per_turn=2)
    assert [name for name, _ in seen] == ["a", "a", "b", "b"] * 2 + ["a", "b"]
    assert [sample for _, sample in seen[:2]] == [sample for _, sample in seen[2:4]]
    assert times == {"a": [2.0] * 5, "b": [2.0] * 3}  # the first two of b are not counted
    assert medians(times) == {"a": 2.0, "b": 2.0}


def test_a_short_call_is_repeated_until_the_clock_can_measure_it() -> None:
    calls = count()
    timed = timed_call(lambda: next(calls))
    before = next(calls)
    seconds = timed(FeatureStream(4, 8, None).take(1)[0])
    repeats = next(calls) - before - 1
    assert repeats > 10
    assert seconds is not None
    assert 0 <= seconds < MIN_SECONDS
    assert cpu_seconds(lambda: None) >= 0


def test_a_step_that_rebuilds_graphs_on_schedule_is_not_counted() -> None:
    stream, method = FeatureStream(4, 8, 8), official_cosmic(2)
    state = state_with_graphs(method, stream)
    ticks = count()
    step = timed_steps(method, state, clock=lambda: float(next(ticks)))
    found = [step(sample) for sample in stream.take(100)]
    assert found.count(None) == 1
    assert set(found) == {None, 1.0}
    assert found.index(None) == 99  # the graphs were built by the step before
