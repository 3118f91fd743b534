"""The cost of adaptation: views, time and storage of every stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.core.state_tree import leaves, state_bytes
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.evaluation.evaluator import evaluate
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import make_method
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, Table, slug
from cosmic_tta.reporting.paper.ablations import (
    ACCURACY_TITLE,
    MAX_VIEW_IMAGES,
    VIEW_COUNTS,
    embedded_pack_with_views,
)
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.embedded_packs import VIEWS_NOTE
from cosmic_tta.reporting.paper.published import contradiction_notes, published_cells, published_number, reference
from cosmic_tta.reporting.paper.seed_accuracy import (
    LABEL_FREE_NOTE,
    SeedAccuracies,
    accuracy,
    compact_table,
    stream_description,
)


class MeasuredMethod(NamedTuple):
    """A method of the efficiency table."""

    title: str  # as in the paper's table, where it has the method
    spec: str
    views: int  # per image, as in the paper
    uses_aux: bool  # whether the auxiliary encoder runs too


class EncoderCost(NamedTuple):
    """What an embedded image encoder costs."""

    ms_per_view: float
    weights_mb: float


MEASURED_METHODS = (
    MeasuredMethod("CLIP", "zero_shot", 1, False),
    MeasuredMethod("TPT", "tpt", 64, False),
    MeasuredMethod("TDA", "tda", 64, False),
    MeasuredMethod("DMN", "dmn", 128, False),
    MeasuredMethod("COSMIC", "cosmic@official", 16, True),
    MeasuredMethod("COSMIC as printed", "cosmic@paper", 16, True),
    MeasuredMethod("COSMIC, our default", "cosmic", 16, True),
    MeasuredMethod("Bayesian class means (ours)", "bayes_means", 1, True),
)
EFFICIENCY_COLUMNS = (
    "method",
    "views",
    "step (ms)",
    "with encoding (ms)",
    "accuracy",
    "gain",
    "published views",
    "published ms",
    "published",
    "published oracle",
)
STAGES = ("CLIP inference", "TDA overhead", "DINOv2 inference", "CLIP graph", "DINOv2 graph")  # as the paper names them
REBUILD_EVERY = 50  # steps between graphs
REBUILD_RULES: Mapping[str, Mapping[str, Any]] = {
    "graphs in every step": {"rebuild": "always"},
    f"graphs every {REBUILD_EVERY} steps": {"rebuild": "scheduled", "rebuild_every": REBUILD_EVERY},
}
ENCODING_REPEATS = 5  # the fastest counts
ENCODING_BATCH = 16  # images


def encoder_cost(kind: str) -> EncoderCost:
    """Measure an embedded image encoder, `clip` or `aux`: its time for one view and the size of its weights."""
    encoder: Any = make_clip("mini:clip") if kind == "clip" else make_encoder("mini:dino", kind="image")
    height, width = encoder.preprocessing.size
    pixels = np.random.default_rng(0).integers(256, size=(ENCODING_BATCH, height, width, 3), dtype=np.uint8)
    times = []
    for _ in range(ENCODING_REPEATS):
        start = perf_counter()
        encoder.encode(pixels)
        times.append(perf_counter() - start)
    folder = files("cosmic_tta") / "encoders" / "assets" / ("clip" if kind == "clip" else "dino")
    weights_mb = len((folder / "image.onnx").read_bytes()) / 1e6
    return EncoderCost(1e3 * min(times) / len(pixels), weights_mb)


def embedded_encoder_costs(context: ExperimentContext) -> tuple[EncoderCost, EncoderCost] | None:
    """Measure the CLIP and the auxiliary encoder of the embedded pack; None if packs were given."""
    return None if context.packs else (encoder_cost("clip"), encoder_cost("aux"))


def efficiency(context: ExperimentContext) -> ResultSet:
    """Return views, time per image, accuracy and gain of the methods."""
    packs, missing = context.labelled_packs(context.packs or (embedded_pack_with_views(context),))
    encoders = embedded_encoder_costs(context)
    tables, charts = [], []
    for pack in packs:
        rows: list[list[Cell]] = []
        points: list[Series] = []
        zero_shot = accuracy(context, "zero_shot", pack).mean
        for method in MEASURED_METHODS:
            count = min(method.views, pack.clip.shape[1])
            first = replace(pack, name=f"{pack.name}, first {count}", clip=pack.clip[:, :count])
            if reason := context.why_not_runnable(method.spec, first):
                missing.append(f"{method.title}: {reason}.")
                continue
            cells = accuracy(context, method.spec, first)
            step_ms = _fastest_step(context, method.spec, first)
            total_ms = None if encoders is None else _encoding_ms(method, count, encoders) + step_ms
            rows.append(_efficiency_row(method, count, step_ms, total_ms, cells, zero_shot))
            points.append(Series(method.title, [step_ms if total_ms is None else total_ms], [cells.mean]))
        name, title = f"efficiency-{slug(pack.name)}", f"Accuracy over time per image: {pack.name}"
        tables.append(compact_table(name, stream_description(context, pack), EFFICIENCY_COLUMNS, rows))
        axis = "ms per step" if encoders is None else "ms per image, with encoding"
        charts.append(Chart(name, title, "points", axis, ACCURACY_TITLE, points))
    notes = [
        LABEL_FREE_NOTE,
        "A step is the method alone: the fastest mean over the seeds, on one core of this machine. The published times "
        "are for Flower102 with CLIP ViT-B/16 on a Tesla V100S, with encoding. They are not comparable with ours.",
        "A pack does not record how long its encoders took, so only steps are timed. Views are cut to those it has."
        if encoders is None
        else f"Views are cut to {VIEW_COUNTS[-1]}, of the first {MAX_VIEW_IMAGES} embedded photographs. {VIEWS_NOTE}",
        *contradiction_notes("efficiency"),
    ]
    title = f"Efficiency ({reference('efficiency')})"
    return ResultSet("efficiency", title, tables, charts, notes, missing, context.settings)


def _encoding_ms(method: MeasuredMethod, views: int, encoders: tuple[EncoderCost, EncoderCost]) -> float:
    clip, aux = encoders
    return views * clip.ms_per_view + method.uses_aux * aux.ms_per_view


def _efficiency_row(
    method: MeasuredMethod,
    views: int,
    step_ms: float,
    total_ms: float | None,
    cells: SeedAccuracies,
    zero_shot: float,
) -> list[Cell]:
    seconds = published_number("efficiency", method.title, "seconds per image")
    gain = None if method.spec == "zero_shot" else f"{round(cells.mean - zero_shot, 2) + 0.0:+.2f}"
    published: list[Cell] = [None] * 4
    if seconds is not None:
        published = [method.views, 1e3 * seconds.value, *published_cells("efficiency", method.title, "accuracy")]
    return [method.title, views, step_ms, total_ms, str(cells), gain, *published]


def overhead(context: ExperimentContext) -> ResultSet:
    """Return time and storage of every stage, with graphs in every step and every 50 steps."""
    packs, missing = context.labelled_packs()
    missing += [f"{pack.name}: no auxiliary features, so no second graph." for pack in packs if pack.aux is None]
    encoders = embedded_encoder_costs(context)
    tables, charts = [], []
    for pack in (pack for pack in packs if pack.aux is not None):
        rows: list[list[Cell]] = []
        series = []
        stages = [stage.replace("DINOv2", pack.aux_model or "auxiliary") for stage in STAGES]
        for rule, parameters in REBUILD_RULES.items():
            times = _stage_times(context, pack, parameters, encoders)
            rows.append([f"{rule}: time (ms)", *times])
            rows.append([f"{rule}: storage (MB)", *_stage_sizes(context, pack, parameters, encoders)])
            rows.append([f"{rule}: accuracy", *_stage_accuracies(context, pack, parameters)])
            known = [(stage, time) for stage, time in zip(stages, times, strict=True) if time is not None]
            series.append(Series(rule, [stage for stage, _ in known], [time for _, time in known]))
        name, title = f"overhead-{slug(pack.name)}", f"Time of every stage: {pack.name}"
        tables.append(compact_table(name, stream_description(context, pack), ["ours", *stages], rows))
        charts.append(Chart(name, title, "bars", "stage", "ms per image", series))
    tables.append(_published_overhead())
    notes = [
        LABEL_FREE_NOTE + " All rows use cosmic@official.",
        "The time of a graph is what its feature space adds to a step. Its storage is its state: cache, centres and "
        "hyper-classes, without what can be computed from them. Times are the fastest mean over the seeds; on a busy "
        "machine, differences of hundredths of a millisecond are noise.",
        f"Scheduled graphs are rebuilt every {REBUILD_EVERY} steps once the caches had time to fill; before that, "
        "after each change of a cache.",
        "A pack does not record what its encoders cost."
        if encoders is None
        else "Encoders: one view through the image towers of the embedded pair; their storage is their weights.",
        *contradiction_notes("overhead"),
    ]
    title = f"Overhead of every stage ({reference('overhead')})"
    return ResultSet("overhead", title, tables, charts, notes, missing, context.settings)


def _stage_times(
    context: ExperimentContext,
    pack: FeaturePack,
    parameters: Mapping[str, Any],
    encoders: tuple[EncoderCost, EncoderCost] | None,
) -> list[float | None]:
    """Return the milliseconds of each stage; a stage of a method is what it adds to the one below."""
    zero_shot = _fastest_step(context, "zero_shot", pack)
    css = _fastest_step(context, "cosmic@official", pack, "none", **parameters)
    both = _fastest_step(context, "cosmic@official", pack, **parameters)
    return [
        encoders and encoders[0].ms_per_view,
        max(0.0, _fastest_step(context, "tda", pack) - zero_shot),
        encoders and encoders[1].ms_per_view,
        max(0.0, css - zero_shot),
        max(0.0, both - css),
    ]


def _stage_sizes(
    context: ExperimentContext,
    pack: FeaturePack,
    parameters: Mapping[str, Any],
    encoders: tuple[EncoderCost, EncoderCost] | None,
) -> list[float | None]:
    """Return the megabytes of each stage: weights of encoders, states of methods at the end of the stream."""
    states: dict[str, Any] = {}
    for spec, own in (("tda", {}), ("cosmic@official", parameters)):
        for progress in evaluate(make_method(spec, **own), pack, seed=context.seeds[0], limit=context.limit):
            states[spec] = progress.state
    css, afv = (
        sum(np.asarray(value).nbytes for _, value in leaves(space)) / 1e6
        for space in (states["cosmic@official"].css, states["cosmic@official"].afv)
    )
    return [
        encoders and encoders[0].weights_mb,
        state_bytes(states["tda"]) / 1e6,
        encoders and encoders[1].weights_mb,
        css,
        afv,
    ]


def _stage_accuracies(context: ExperimentContext, pack: FeaturePack, parameters: Mapping[str, Any]) -> list[Cell]:
    css = accuracy(context, "cosmic@official", pack, "none", **parameters)
    both = accuracy(context, "cosmic@official", pack, **parameters)
    return [str(accuracy(context, "zero_shot", pack)), str(accuracy(context, "tda", pack)), None, str(css), str(both)]


def _fastest_step(
    context: ExperimentContext, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any
) -> float:
    """Return the milliseconds per step of the fastest seed."""
    runs = [context.run(spec, pack, seed, aux, **parameters) for seed in context.seeds]
    return min(run.report.ms_per_sample for run in runs)


def _published_overhead() -> Table:
    rows: list[list[Cell]] = []
    for dataset in ("Flower102", "UCF101"):
        for quantity in ("time (ms)", "storage (MB)", "accuracy"):
            row = f"{dataset}: {quantity}"
            cells = [published_cells("overhead", row, stage) for stage in STAGES]
            rows.append([row, *(plain for plain, _ in cells), *(tuned for _, tuned in cells)])
    columns = ["published", *STAGES, *(f"{stage}, oracle" for stage in STAGES)]
    return compact_table("overhead-published", f"As published, {reference('overhead')}", columns, rows)
