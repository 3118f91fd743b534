"""The process that `cosmic bench` measures in: `python -m cosmic_tta.bench_worker WHAT SETTINGS`.

WHAT is figures, threads, large or learning.

BLAS reads how many threads it may use when NumPy is imported, so whoever starts this process says it by its
environment. Figures go to standard output as JSON, progress to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from cosmic_tta.bench_data import Settings, Stream, Textbook, filled, full, method_for, official
from cosmic_tta.core import Method, Sample
from cosmic_tta.kernel import path
from cosmic_tta.methods import make_method
from cosmic_tta.methods.cosmic import CosmicState
from cosmic_tta.ops import Array
from cosmic_tta.state import state_bytes

BURST = 10  # calls that one contestant makes before the next has its turn
BLOCK = 96
COLD = 100  # samples of a cold stream
THREAD_TURNS = 12
BAYES_STEPS = 300  # at least: its worst step is a figure too
LARGE_CLASSES, LARGE_SHOTS = 10_000, 8
LEARNING_CLASSES, LEARNING_VIEWS, LEARNING_STEPS = 100, 64, 3
LEARNING_WIDTH, LEARNING_LAYERS = 512, 12  # of the text tower of CLIP ViT-B
SHORT = 50e-6  # seconds; a bare call that is shorter is made several times

Turn = Callable[[Sample], float | None]  # one call's seconds; None where it is of another kind than the rest


def steps(method: Method[Any], state: Any, clock: Callable[[], float] = process_time) -> Turn:
    """Step through samples; a step on which a schedule puts a new graph is made but not counted."""
    every = getattr(method, "rebuild_every", 0) if getattr(method, "rebuild", "") == "scheduled" else 0

    def turn(sample: Sample) -> float | None:
        graph = every and state.seen % every == 0
        start = clock()
        method.step(state, sample)
        spent = clock() - start
        return None if graph else spent

    return turn


def bare(call: Callable[[], object]) -> Turn:
    """Time a call that needs no sample, as often as it takes to be seen by the clock."""
    repeat = 1
    while (spent := _spent(call, repeat)) < SHORT:
        repeat = 1 + int(1.5 * repeat * SHORT / max(spent, SHORT / 10))
    return lambda sample: _spent(call, repeat) / repeat


def _spent(call: Callable[[], object], repeat: int = 1) -> float:
    start = process_time()
    for _ in range(repeat):
        call()
    return process_time() - start


def interleaved(turns: Mapping[str, Turn], stream: Stream, calls: int, burst: int = BURST) -> dict[str, list[float]]:
    """Give every contestant the same samples, a few at a time, and return what each call took in ms."""
    spent: dict[str, list[float]] = {name: [] for name in turns}
    for start in range(0, calls, burst):
        samples = stream.take(min(burst, calls - start))
        for name, turn in turns.items():
            spent[name] += [1e3 * seconds for seconds in map(turn, samples) if seconds is not None]
    return spent


def medians(spent: Mapping[str, list[float]]) -> dict[str, float]:
    """Return each contestant's median."""
    return {name: median(times) for name, times in spent.items()}


class Figures:
    """All figures of one number of classes."""

    def __init__(self, settings: Settings, classes: int, textbook: Textbook) -> None:
        self.settings, self.classes, self.textbook = settings, classes, textbook
        self.stream = Stream(classes, settings.dim, settings.aux_dim, settings.views)
        self.sizes: dict[str, float] = {}  # of states, in MB

    def measure(self) -> dict[str, Any]:
        """Measure one part after the other."""
        found: dict[str, Any] = {}
        bayes = [self.bayes_means] if "bayes_means" in self.settings.methods else []
        for part in (self.full_caches, self.new_graphs, self.blocks, *bayes, self.cold_streams):
            print(f"{self.classes} classes: {part.__name__.replace('_', ' ')}", file=sys.stderr, flush=True)
            found |= part()
        return found | {"state_mb": self.sizes}

    def full_caches(self) -> dict[str, float]:
        """Measure steps that build no graph."""
        shots, stream = self.settings.shots, self.stream
        turns = {"floor_memory": bare(_pass(self.classes * (shots + 1), self.settings.dim))}
        ours: dict[str, Method[Any]] = {
            "step": official(shots, aux_cache=False),
            "step_aux_cache": official(shots),
            "step_8": official(8, aux_cache=False),
        }
        ours |= {spec: method_for(spec, stream, shots) for spec in self.settings.methods if spec != "bayes_means"}
        for name, method in ours.items():
            turns[name] = self._steps(name, method)
        if self.textbook:
            tda = self.textbook.tda(stream)
            turns["textbook_tda"] = lambda sample: _spent(lambda: tda.step(sample.clip))
        return medians(interleaved(turns, stream, self.settings.samples))

    def _steps(self, name: str, method: Method[Any]) -> Turn:
        state = filled(method, self.stream)
        self.sizes[name] = state_bytes(state) / 1e6
        return steps(method, state)

    def new_graphs(self) -> dict[str, float]:
        """Measure steps that build both graphs."""
        always = official(self.settings.shots, aux_cache=False, rebuild="always")
        turns = {
            "floor_css_product": bare(_products(2 * self.classes, self.settings.dim)),
            "floor_afv_product": bare(_products(self.classes, self.settings.aux_dim)),
            "rebuild": steps(always, filled(always, self.stream)),
        }
        return medians(interleaved(turns, self.stream, max(5, self.settings.samples // 10), burst=2))

    def blocks(self) -> dict[str, float]:
        """Let twin states take the same samples, one as a block, one step by step; no graph falls on them."""
        method = official(self.settings.shots, aux_cache=False)
        state, twin = filled(method, self.stream), filled(method, self.stream)
        spent: dict[str, list[float]] = {"block": [], "one_by_one": []}
        for _ in range(max(3, self.settings.samples // 60)):
            samples = self.stream.take(BLOCK)
            spent["block"].append(1e3 * _spent(partial(method.steps, state, samples)) / BLOCK)
            spent["one_by_one"].append(1e3 * _spent(partial(_one_by_one, method, twin, samples)) / BLOCK)
            rest = self.stream.take(method.rebuild_every - BLOCK)  # up to the next graph, and past it
            method.steps(state, rest)
            method.steps(twin, rest)
        return medians(spent)

    def bayes_means(self) -> dict[str, float]:
        """Measure `bayes_means`, whose worst step counts too."""
        method = method_for("bayes_means", self.stream, self.settings.shots)
        floor = bare(_sums(self.classes, (self.settings.dim, self.settings.aux_dim)))
        turns = {"floor_bayes": floor, "bayes_means": self._steps("bayes_means", method)}
        spent = interleaved(turns, self.stream, max(BAYES_STEPS, self.settings.samples))
        return medians(spent) | {"bayes_means_worst": max(spent["bayes_means"])}

    def cold_streams(self) -> dict[str, float]:
        """Measure how streams begin: the median of their means."""
        streams = [cold(self.settings, self.stream, self.textbook) for _ in range(3 if self.classes <= 400 else 1)]
        return {name: median(one[name] for one in streams) for name in streams[0]}


def _one_by_one(method: Method[Any], state: Any, samples: Sequence[Sample]) -> None:
    for sample in samples:
        method.step(state, sample)


def _rows(count: int, width: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, width), np.float32)


def _pass(count: int, width: int) -> Callable[[], object]:
    rows, query = _rows(count, width), _rows(1, width)[0]
    return lambda: rows @ query


def _products(count: int, width: int) -> Callable[[], object]:
    rows = _rows(count, width)
    return lambda: rows @ rows.T


def _sums(classes: int, widths: tuple[int, ...]) -> Callable[[], object]:
    """Return a bare pass over the class sums of both spaces for one sample, and for the sixteen that a sweep takes."""
    spaces = [(_rows(classes, width), _rows(1, width)[0], _rows(16, width)) for width in widths]
    return lambda: [(sums @ one, sixteen @ sums.T) for sums, one, sixteen in spaces]


def cold(
    settings: Settings, stream: Stream, textbook: Textbook | None, clock: Callable[[], float] = process_time
) -> dict[str, float]:
    """Begin a stream by the official schedule, the textbook beside: the means of its first samples."""
    method = official(settings.shots)
    state = method.init(stream.task)
    plain = textbook.cosmic(stream.task, settings.shots) if textbook else None
    spent: dict[str, float] = dict.fromkeys(("cold", "textbook_cold") if textbook else ("cold",), 0.0)
    rebuilds = 0
    for _ in range(0, COLD, BURST):
        samples = stream.take(BURST)
        for sample in samples:
            before = _graphs(state)
            start = clock()
            method.step(state, sample)
            spent["cold"] += 1e3 * (clock() - start) / COLD
            rebuilds += any(now is not then for now, then in zip(_graphs(state), before, strict=True))
        if plain is not None:
            for sample in samples:
                start = clock()
                plain.step(sample.clip, sample.aux)
                spent["textbook_cold"] += 1e3 * (clock() - start) / COLD
    return spent | {"cold_rebuilds": rebuilds}


def _graphs(state: CosmicState) -> tuple[object, ...]:
    return state.css.hyper, None if state.afv is None else state.afv.hyper


def threads(settings: Settings) -> dict[str, Any]:
    """Measure wall time with one BLAS thread and with one a core, in turn, on the same states."""
    cores = os.cpu_count() or 1
    found: dict[str, Any] = {"cores": cores, "classes": {}}
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return found | {"absent": "it needs threadpoolctl; install the extra `test`"}
    for classes in settings.classes:
        print(f"{classes} classes: one thread and all cores in turn", file=sys.stderr, flush=True)
        stream = Stream(classes, settings.dim, settings.aux_dim, settings.views)
        made: dict[str, Method[Any]] = {
            name: official(settings.shots, aux_cache=False, rebuild=when)
            for name, when in (("step", "scheduled"), ("rebuild", "always"))
        }
        made |= {spec: method_for(spec, stream, settings.shots) for spec in settings.methods}
        calls = {name: steps(method, filled(method, stream), perf_counter) for name, method in made.items()}
        spent: dict[str, dict[str, list[float]]] = {name: {"one": [], "all": []} for name in (*calls, "cold")}
        for turn in range(THREAD_TURNS):
            for side, number in (("one", 1), ("all", cores))[:: 1 if turn % 2 else -1]:
                with threadpool_limits(number):
                    for name, call in calls.items():
                        times = interleaved({name: call}, stream, 2 if name == "rebuild" else BURST)
                        spent[name][side] += times[name]
                    if turn % 4 < 2:
                        spent["cold"][side].append(cold(settings, stream, None, perf_counter)["cold"])
        rows = {name: {side: median(times) for side, times in sides.items()} for name, sides in spent.items()}
        found["classes"][str(classes)] = {name: row | {"ratio": row["all"] / row["one"]} for name, row in rows.items()}
    return found


def large(settings: Settings) -> dict[str, Any]:
    """Build one graph of texts and centres of many classes; the peak is this process's, so it does nothing else."""
    from resource import RUSAGE_SELF, getrusage  # not on every system

    stream = Stream(LARGE_CLASSES, settings.dim, None)
    method = official(LARGE_SHOTS)
    state, sample = full(method, stream), stream.take(1)[0]
    seconds = _spent(lambda: method.step(state, sample))
    peak = getrusage(RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return {"classes": LARGE_CLASSES, "nodes": 2 * LARGE_CLASSES, "rebuild_s": seconds, "peak_mb": peak}


def learning(settings: Settings) -> dict[str, Any]:
    """Measure a method that learns through a text tower of real size; the peak is this process's."""
    from resource import RUSAGE_SELF, getrusage  # not on every system

    from cosmic_tta.encoders.generated_tower import generated_tower

    (spec,) = settings.methods
    print(f"{LEARNING_CLASSES} classes, {LEARNING_VIEWS} views: {spec}", file=sys.stderr, flush=True)
    stream = Stream(LEARNING_CLASSES, settings.dim, None, LEARNING_VIEWS)
    names = stream.task.class_names
    tower = generated_tower(names, settings.dim, width=LEARNING_WIDTH, layers=LEARNING_LAYERS)
    method = make_method(spec)
    state = method.init(replace(stream.task, tower=tower))
    first, *rest = stream.take(1 + LEARNING_STEPS)
    spent = [_spent(partial(method.step, state, sample)) for sample in (first, *rest)]
    texts = _spent(partial(tower.texts, tower.opening("a photo of a")))
    peak = getrusage(RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return {
        "classes": LEARNING_CLASSES,
        "views": LEARNING_VIEWS,
        "width": LEARNING_WIDTH,
        "layers": LEARNING_LAYERS,
        "prompt": tower.longest(4),
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "first_s": spent[0],
        "step_s": median(spent[1:]),
        "zero_shot_s": texts,
        "state_mb": state_bytes(state) / 1e6,
        "peak_mb": peak,
    }


def main() -> None:
    """Measure what the first word says, with the settings of the second, which is JSON."""
    what, told = sys.argv[1:]
    settings = Settings(**json.loads(told))
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
            "textbook": textbook.absent or "there",
            "classes": {str(classes): Figures(settings, classes, textbook).measure() for classes in settings.classes},
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
