"""What adaptation costs: views, time and storage, stage by stage."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from cosmic_tta.charts import Cell, Chart, Outcome, Series, slug
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.evaluate import evaluate
from cosmic_tta.experiments.ablations import VIEWED, VIEWS
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.embedded import VIEWED as MOVED
from cosmic_tta.experiments.embedded import embedded_views
from cosmic_tta.experiments.measures import LABEL_FREE, accuracy, compact, conditions
from cosmic_tta.experiments.published import contradictions, figure, pair, where
from cosmic_tta.methods import make_method
from cosmic_tta.packs import FeaturePack
from cosmic_tta.state import leaves, state_bytes

# The views that the paper gives each method, and whether it asks the auxiliary encoder too.
EFFICIENCY = (
    ("CLIP", "zero_shot", 1, False),
    ("TPT", "tpt", 64, False),
    ("TDA", "tda", 64, False),
    ("DMN", "dmn", 128, False),
    ("COSMIC", "cosmic@official", 16, True),
    ("COSMIC as printed", "cosmic@paper", 16, True),
    ("COSMIC, our default", "cosmic", 16, True),
    ("Bayesian class means (ours)", "bayes_means", 1, True),
)
EVERY = 50  # steps between graphs
REPEATS = 5  # of a measured encoding; the fastest counts


def encoding_seconds(kind: str) -> tuple[float, float]:
    """Return the seconds that an embedded encoder takes for one view, and the megabytes of its weights."""
    encoder: Any = make_clip("mini:clip") if kind == "clip" else make_encoder("mini:dino", kind="image")
    height, width = encoder.preprocessing.size
    pixels = np.random.default_rng(0).integers(256, size=(VIEWS[-2], height, width, 3), dtype=np.uint8)
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        encoder.encode(pixels)
        times.append(perf_counter() - start)
    return min(times) / len(pixels), weights_mb(kind)


def weights_mb(kind: str) -> float:
    """Return how large an embedded encoder's image tower is on disk."""
    from importlib.resources import files

    folder = files("cosmic_tta") / "mini" / ("clip" if kind == "clip" else "dino")
    return len((folder / "image.onnx").read_bytes()) / 1e6


def efficiency(context: Context) -> Outcome:
    """Views, time per image, accuracy and gain."""
    embedded = not context.packs
    packs: tuple[FeaturePack, ...] = context.packs or (embedded_views(min(context.limit or VIEWED, VIEWED), VIEWS[-1]),)
    clip, aux = (encoding_seconds("clip")[0], encoding_seconds("aux")[0]) if embedded else (None, None)
    tables, charts = [], []
    missing: list[str] = []
    for pack in packs:
        if pack.labels is None:
            missing.append(f"{pack.name}: no labels, so no accuracy.")
            continue
        rows: list[list[Cell]] = []
        points: dict[str, tuple[float, float]] = {}
        start = accuracy(context, "zero_shot", pack).mean
        for title, spec, wanted, looks_aside in EFFICIENCY:
            views = min(wanted, pack.clip.shape[1])
            first = replace(pack, name=f"{pack.name}, first {views}", clip=pack.clip[:, :views])
            if why := context.hindrance(spec, first):
                missing.append(f"{title}: {why}.")
                continue
            spread = accuracy(context, spec, first)
            step = min(context.run(spec, first, seed).report.ms_per_sample for seed in context.seeds)
            whole: float | None = None
            if clip is not None and aux is not None:
                whole = 1e3 * (views * clip + looks_aside * aux) + step
            name = title.split(",")[0] if spec == "cosmic@official" else title
            told = figure("efficiency", name, "seconds per image")
            gain = None if spec == "zero_shot" else f"{round(spread.mean - start, 2) + 0.0:+.2f}"
            published = pair("efficiency", name, "accuracy") if told else (None, None)
            seconds = 1e3 * told.value if told else None
            paper_views = wanted if told else None
            rows.append([title, views, step, whole, str(spread), gain, paper_views, seconds, *published])
            points[title] = (step if whole is None else whole, spread.mean)
        columns = [
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
        ]
        tables.append(compact(f"efficiency-{slug(pack.name)}", conditions(context, pack), columns, rows))
        series = [Series(title, [x], [y]) for title, (x, y) in points.items()]
        axis = "ms per image, with encoding" if embedded else "ms per step"
        title = f"Accuracy against time: {pack.name}"
        charts.append(Chart(f"efficiency-{slug(pack.name)}", title, "points", axis, "top-1 accuracy (%)", series))
    notes = [
        LABEL_FREE,
        "A step is the method alone, the fastest mean of the seeds, on one core of this machine; the published times "
        "are of Flower102 with CLIP ViT-B/16 on a Tesla V100S, encoding included, and are no yardstick for ours.",
        f"Views are cut to what a pack has ({VIEWS[-1]} of the first {VIEWED} embedded photographs). {MOVED}"
        if embedded
        else "A pack does not tell how long its encoders took: only steps are timed. Views are cut to what it has.",
        *contradictions("efficiency"),
    ]
    title = f"Efficiency ({where('efficiency')})"
    return Outcome("efficiency", title, tables, charts, notes, missing, context.settings)


# As the paper names them; ours have the names of a pack's own encoders.
STAGES = ("CLIP inference", "TDA overhead", "DINOv2 inference", "CLIP graph", "DINOv2 graph")


def overhead(context: Context) -> Outcome:
    """Time and storage of every stage, with graphs in every step and every 50 steps."""
    packs, missing = context.labelled()
    missing += [f"{pack.name}: no auxiliary features, so no second graph." for pack in packs if pack.aux is None]
    embedded = not context.packs
    clip, aux = (encoding_seconds("clip"), encoding_seconds("aux")) if embedded else (None, None)
    tables, charts = [], []
    rules: dict[str, dict[str, Any]] = {
        "graphs in every step": {"rebuild": "always"},
        f"graphs every {EVERY} steps": {"rebuild": "scheduled", "rebuild_every": EVERY},
    }
    for pack in (pack for pack in packs if pack.aux is not None):
        rows: list[list[Cell]] = []
        series = []
        own = pack.aux_model or "auxiliary"
        stages = [stage.replace("DINOv2", own) for stage in STAGES]
        zero_shot, tda = accuracy(context, "zero_shot", pack), accuracy(context, "tda", pack)
        floor = _fastest(context, "zero_shot", pack)
        for rule, parameters in rules.items():
            css_time = _fastest(context, "cosmic@official", pack, "none", **parameters)
            both = _fastest(context, "cosmic@official", pack, **parameters)
            times = [
                clip and 1e3 * clip[0],
                max(0.0, _fastest(context, "tda", pack) - floor),
                aux and 1e3 * aux[0],
                max(0.0, css_time - floor),
                max(0.0, both - css_time),
            ]
            tda_bytes, spaces = _storage(context, pack, parameters)
            sizes = [clip and clip[1], tda_bytes / 1e6, aux and aux[1], spaces[0] / 1e6, spaces[1] / 1e6]
            css = accuracy(context, "cosmic@official", pack, "none", **parameters)
            afv = accuracy(context, "cosmic@official", pack, **parameters)
            rows.append([f"{rule}: time (ms)", *times])
            rows.append([f"{rule}: storage (MB)", *sizes])
            rows.append([f"{rule}: accuracy", str(zero_shot), str(tda), None, str(css), str(afv)])
            known = [(stage, float(time)) for stage, time in zip(stages, times, strict=True) if time is not None]
            series.append(Series(rule, [stage for stage, _ in known], [time for _, time in known]))
        columns = ["ours", *stages]
        tables.append(compact(f"overhead-{slug(pack.name)}", conditions(context, pack), columns, rows))
        title = f"Time of every stage: {pack.name}"
        charts.append(Chart(f"overhead-{slug(pack.name)}", title, "bars", "stage", "ms per image", series))
    tables.append(_published_overhead())
    notes = [
        LABEL_FREE + " Here cosmic@official throughout.",
        "A graph's time is what its space adds to a step; its storage is its state: cache, centres, hyper-classes. "
        "What follows from the state (similarities, products) is not counted. The fastest mean of the seeds counts; on "
        "a busy machine, differences of hundredths of a millisecond are noise.",
        f"Every {EVERY} steps once the caches had time to fill; before, a graph follows each change of a cache.",
        "Encoders: one view, the embedded pair's image towers; storage is their weights."
        if embedded
        else "A pack does not tell what its encoders cost.",
        *contradictions("overhead"),
    ]
    return Outcome(
        "overhead", f"Overhead of every stage ({where('overhead')})", tables, charts, notes, missing, context.settings
    )


def _fastest(context: Context, spec: str, pack: FeaturePack, aux: str = "given", **parameters: Any) -> float:
    runs = [context.run(spec, pack, seed, aux, **parameters) for seed in context.seeds]
    return min(run.report.ms_per_sample for run in runs)


def _storage(context: Context, pack: FeaturePack, parameters: dict[str, Any]) -> tuple[int, tuple[int, int]]:
    """Return the bytes of TDA's state, and of COSMIC's two spaces, at the end of the stream."""
    ends: dict[str, Any] = {}
    for spec, own in (("tda", {}), ("cosmic@official", parameters)):
        for progress in evaluate(make_method(spec, **own), pack, seed=context.seeds[0], limit=context.limit):
            ends[spec] = progress.state
    spaces = [
        sum(np.asarray(value).nbytes for _, value in leaves(space))
        for space in (ends["cosmic@official"].css, ends["cosmic@official"].afv)
    ]
    return state_bytes(ends["tda"]), (spaces[0], spaces[1])


def _published_overhead() -> Any:
    rows: list[list[Cell]] = []
    for data in ("Flower102", "UCF101"):
        for row in ("time (ms)", "storage (MB)", "accuracy"):
            cells = [pair("overhead", f"{data}: {row}", stage) for stage in STAGES]
            rows.append([f"{data}: {row}", *(plain for plain, _ in cells), *(tuned for _, tuned in cells)])
    columns = ["published", *STAGES, *(f"{stage}, oracle" for stage in STAGES)]
    return compact("overhead-published", f"As published, {where('overhead')}", columns, rows)
