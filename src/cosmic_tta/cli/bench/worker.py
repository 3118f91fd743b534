"""The process that `cosmic bench` measures in: `python -m cosmic_tta.cli.bench.worker WHAT SETTINGS`.

WHAT is figures, threads, large or learning; SETTINGS is JSON. BLAS reads its number of threads when NumPy is imported,
so the environment of this process sets it. Results go to standard output as JSON, progress to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from cosmic_tta.cli.bench.timing import (
    CALLS_PER_TURN,
    TimedCall,
    cpu_seconds,
    medians,
    take_turns,
    timed_call,
    timed_steps,
)
from cosmic_tta.cli.bench.workload import (
    BenchSettings,
    FeatureStream,
    Textbook,
    official_cosmic,
    state_with_full_caches,
    state_with_graphs,
    supported_method,
)
from cosmic_tta.core.arrays import Array
from cosmic_tta.core.kernel import path
from cosmic_tta.core.method import Method
from cosmic_tta.core.state_tree import state_bytes
from cosmic_tta.core.types import Sample
from cosmic_tta.methods import make_method
from cosmic_tta.methods.cosmic.state import CosmicState

BLOCK = 96  # samples
COLD_SAMPLES = 100  # the first samples of a stream
THREAD_TURNS = 12
MIN_BAYES_STEPS = 300  # enough to see its slowest step
LARGE_CLASSES, LARGE_SHOTS = 10_000, 8
LEARNING_CLASSES, LEARNING_VIEWS, LEARNING_STEPS = 100, 64, 3
LEARNING_WIDTH, LEARNING_LAYERS = 512, 12  # of the text tower of CLIP ViT-B


class BenchFigures:
    """Measures all figures of one number of classes."""

    def __init__(self, settings: BenchSettings, classes: int, textbook: Textbook) -> None:
        self.settings, self.classes, self.textbook = settings, classes, textbook
        self.stream = FeatureStream(classes, settings.dim, settings.aux_dim, settings.views)
        self.sizes: dict[str, float] = {}  # of states, in MB

    def measure(self) -> dict[str, Any]:
        """Measure every group of figures."""
        found: dict[str, Any] = {}
        bayes = [self.bayes_means] if "bayes_means" in self.settings.methods else []
        for part in (self.full_caches, self.new_graphs, self.blocks, *bayes, self.cold_streams):
            print(f"{self.classes} classes: {part.__name__.replace('_', ' ')}", file=sys.stderr, flush=True)
            found |= part()
        return found | {"state_mb": self.sizes}

    def full_caches(self) -> dict[str, float]:
        """Measure steps that build no graph."""
        shots, stream = self.settings.shots, self.stream
        calls = {"floor_memory": timed_call(_matrix_vector_product(self.classes * (shots + 1), self.settings.dim))}
        ours: dict[str, Method[Any]] = {
            "step": official_cosmic(shots, aux_cache=False),
            "step_aux_cache": official_cosmic(shots),
            "step_8": official_cosmic(8, aux_cache=False),
        }
        ours |= {spec: supported_method(spec, stream, shots) for spec in self.settings.methods if spec != "bayes_means"}
        for name, method in ours.items():
            calls[name] = self._timed_steps(name, method)
        if self.textbook:
            tda = self.textbook.tda(stream)
            calls["textbook_tda"] = lambda sample: cpu_seconds(lambda: tda.step(sample.clip))
        return medians(take_turns(calls, stream, self.settings.samples))

    def _timed_steps(self, name: str, method: Method[Any]) -> TimedCall:
        state = state_with_graphs(method, self.stream)
        self.sizes[name] = state_bytes(state) / 1e6
        return timed_steps(method, state)

    def new_graphs(self) -> dict[str, float]:
        """Measure steps that build both graphs."""
        always = official_cosmic(self.settings.shots, aux_cache=False, rebuild="always")
        calls = {
            "floor_css_product": timed_call(_matrix_square(2 * self.classes, self.settings.dim)),
            "floor_afv_product": timed_call(_matrix_square(self.classes, self.settings.aux_dim)),
            "rebuild": timed_steps(always, state_with_graphs(always, self.stream)),
        }
        return medians(take_turns(calls, self.stream, max(5, self.settings.samples // 10), per_turn=2))

    def blocks(self) -> dict[str, float]:
        """Give two equal states the same samples, one as a block and one step by step. No step builds a graph."""
        method = official_cosmic(self.settings.shots, aux_cache=False)
        state, other = state_with_graphs(method, self.stream), state_with_graphs(method, self.stream)
        times: dict[str, list[float]] = {"block": [], "one_by_one": []}
        for _ in range(max(3, self.settings.samples // 60)):
            samples = self.stream.take(BLOCK)
            times["block"].append(1e3 * cpu_seconds(partial(method.steps, state, samples)) / BLOCK)
            times["one_by_one"].append(1e3 * cpu_seconds(partial(_step_each, method, other, samples)) / BLOCK)
            rest = self.stream.take(method.rebuild_every - BLOCK)  # the next scheduled graph is built in these
            method.steps(state, rest)
            method.steps(other, rest)
        return medians(times)

    def bayes_means(self) -> dict[str, float]:
        """Measure the median and the slowest step of `bayes_means`."""
        method = supported_method("bayes_means", self.stream, self.settings.shots)
        floor = timed_call(_class_sum_products(self.classes, (self.settings.dim, self.settings.aux_dim)))
        calls = {"floor_bayes": floor, "bayes_means": self._timed_steps("bayes_means", method)}
        times = take_turns(calls, self.stream, max(MIN_BAYES_STEPS, self.settings.samples))
        return medians(times) | {"bayes_means_worst": max(times["bayes_means"])}

    def cold_streams(self) -> dict[str, float]:
        """Measure the first samples of several streams, and return the median over the streams."""
        streams = [cold(self.settings, self.stream, self.textbook) for _ in range(3 if self.classes <= 400 else 1)]
        return {name: median(times[name] for times in streams) for name in streams[0]}


def _step_each(method: Method[Any], state: Any, samples: Sequence[Sample]) -> None:
    for sample in samples:
        method.step(state, sample)


def _random_rows(count: int, width: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, width), np.float32)


def _matrix_vector_product(count: int, width: int) -> Callable[[], object]:
    rows, query = _random_rows(count, width), _random_rows(1, width)[0]
    return lambda: rows @ query


def _matrix_square(count: int, width: int) -> Callable[[], object]:
    rows = _random_rows(count, width)
    return lambda: rows @ rows.T


def _class_sum_products(classes: int, widths: tuple[int, ...]) -> Callable[[], object]:
    """Return the products of the class sums of every space with one sample, and with sixteen relabelled ones."""
    spaces = [(_random_rows(classes, width), _random_rows(1, width)[0], _random_rows(16, width)) for width in widths]
    return lambda: [(sums @ one, sixteen @ sums.T) for sums, one, sixteen in spaces]


def cold(
    settings: BenchSettings, stream: FeatureStream, textbook: Textbook | None, clock: Callable[[], float] = process_time
) -> dict[str, float]:
    """Return the mean times in ms of the first samples of a stream, by the official preset and by the textbook."""
    method = official_cosmic(settings.shots)
    state = method.init(stream.task)
    plain = textbook.cosmic(stream.task, settings.shots) if textbook else None
    times: dict[str, float] = dict.fromkeys(("cold", "textbook_cold") if textbook else ("cold",), 0.0)
    rebuilds = 0
    for _ in range(0, COLD_SAMPLES, CALLS_PER_TURN):
        samples = stream.take(CALLS_PER_TURN)
        for sample in samples:
            before = _graphs(state)
            start = clock()
            method.step(state, sample)
            times["cold"] += 1e3 * (clock() - start) / COLD_SAMPLES
            rebuilds += any(now is not then for now, then in zip(_graphs(state), before, strict=True))
        if plain is not None:
            for sample in samples:
                start = clock()
                plain.step(sample.clip, sample.aux)
                times["textbook_cold"] += 1e3 * (clock() - start) / COLD_SAMPLES
    return times | {"cold_rebuilds": rebuilds}


def _graphs(state: CosmicState) -> tuple[object, ...]:
    return state.css.hyperclasses, None if state.afv is None else state.afv.hyperclasses


def threads(settings: BenchSettings) -> dict[str, Any]:
    """Measure wall time with one BLAS thread and with one per core, in turn, on the same states."""
    cores = os.cpu_count() or 1
    found: dict[str, Any] = {"cores": cores, "classes": {}}
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return found | {"absent": "it needs threadpoolctl; install the extra `test`"}
    for classes in settings.classes:
        print(f"{classes} classes: one thread and all cores in turn", file=sys.stderr, flush=True)
        stream = FeatureStream(classes, settings.dim, settings.aux_dim, settings.views)
        made: dict[str, Method[Any]] = {
            name: official_cosmic(settings.shots, aux_cache=False, rebuild=when)
            for name, when in (("step", "scheduled"), ("rebuild", "always"))
        }
        made |= {spec: supported_method(spec, stream, settings.shots) for spec in settings.methods}
        calls = {
            name: timed_steps(method, state_with_graphs(method, stream), perf_counter) for name, method in made.items()
        }
        times: dict[str, dict[str, list[float]]] = {name: {"one": [], "all": []} for name in (*calls, "cold")}
        for turn in range(THREAD_TURNS):
            for side, number in (("one", 1), ("all", cores))[:: 1 if turn % 2 else -1]:
                with threadpool_limits(number):
                    for name, call in calls.items():
                        count = 2 if name == "rebuild" else CALLS_PER_TURN
                        times[name][side] += take_turns({name: call}, stream, count)[name]
                    if turn % 4 < 2:
                        times["cold"][side].append(cold(settings, stream, None, perf_counter)["cold"])
        rows = {name: {side: median(values) for side, values in sides.items()} for name, sides in times.items()}
        found["classes"][str(classes)] = {name: row | {"ratio": row["all"] / row["one"]} for name, row in rows.items()}
    return found


def large(settings: BenchSettings) -> dict[str, Any]:
    """Build one graph of the texts and centres of many classes. The process does nothing else, so its peak counts."""
    stream = FeatureStream(LARGE_CLASSES, settings.dim, None)
    method = official_cosmic(LARGE_SHOTS)
    state, sample = state_with_full_caches(method, stream), stream.take(1)[0]
    seconds = cpu_seconds(lambda: method.step(state, sample))
    return {"classes": LARGE_CLASSES, "nodes": 2 * LARGE_CLASSES, "rebuild_s": seconds, "peak_mb": _peak_megabytes()}


def _peak_megabytes() -> float:
    """Return the peak memory of this process."""
    from resource import RUSAGE_SELF, getrusage  # not on every system

    return getrusage(RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def learning(settings: BenchSettings) -> dict[str, Any]:
    """Measure a method that learns prompts, with a text tower of real size. The peak is that of this process."""
    from cosmic_tta.encoders.random_tower import random_tower

    (spec,) = settings.methods
    print(f"{LEARNING_CLASSES} classes, {LEARNING_VIEWS} views: {spec}", file=sys.stderr, flush=True)
    stream = FeatureStream(LEARNING_CLASSES, settings.dim, None, LEARNING_VIEWS)
    names = stream.task.class_names
    tower = random_tower(names, settings.dim, width=LEARNING_WIDTH, layers=LEARNING_LAYERS)
    method = make_method(spec)
    state = method.init(replace(stream.task, tower=tower))
    first, *rest = stream.take(1 + LEARNING_STEPS)
    seconds = [cpu_seconds(partial(method.step, state, sample)) for sample in (first, *rest)]
    text_seconds = cpu_seconds(partial(tower.texts, tower.opening("a photo of a")))
    return {
        "classes": LEARNING_CLASSES,
        "views": LEARNING_VIEWS,
        "width": LEARNING_WIDTH,
        "layers": LEARNING_LAYERS,
        "prompt": tower.longest(4),
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "first_s": seconds[0],
        "step_s": median(seconds[1:]),
        "zero_shot_s": text_seconds,
        "state_mb": state_bytes(state) / 1e6,
        "peak_mb": _peak_megabytes(),
    }


def main() -> None:
    """Measure what the first argument names, with the settings of the second."""
    what, settings_json = sys.argv[1:]
    settings = BenchSettings(**json.loads(settings_json))
    if what == "large":
        found = large(settings)
    elif what == "learning":
        found = learning(settings)
    elif what == "threads":
        found = threads(settings)
    else:
        textbook = Textbook()
        found = {
            "path": path(),
            "textbook": textbook.missing_reason or "there",
            "classes": {
                str(classes): BenchFigures(settings, classes, textbook).measure() for classes in settings.classes
            },
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
