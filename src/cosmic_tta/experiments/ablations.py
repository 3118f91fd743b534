"""The paper's ablations: branches, mask, share of hyper-classes, cache, views, centres, auxiliary features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from cosmic_tta.charts import Cell, Chart, Outcome, Series, Table, slug
from cosmic_tta.evaluate import evaluate
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.embedded import VIEWED as MOVED
from cosmic_tta.experiments.embedded import embedded_views
from cosmic_tta.experiments.measures import (
    BASES,
    LABEL_FREE,
    Spread,
    accuracy,
    compact,
    conditions,
    hits,
    oracle_accuracy,
    over_seeds,
    truth,
)
from cosmic_tta.experiments.published import as_table, contradictions, pair, where
from cosmic_tta.methods import make_method
from cosmic_tta.oracle import weighted_hits
from cosmic_tta.packs import AUX_KINDS, FeaturePack
from cosmic_tta.parameters import values

NO_AUX = "{}: no auxiliary features, so no AFV."
COMBINATIONS = (("CLIP",), ("CSS",), ("AFV",), ("CLIP", "CSS"), ("CLIP", "AFV"), ("CLIP", "CSS", "AFV"))
PARTS = {"CLIP": "zero_shot", "CSS": "css", "AFV": "afv"}
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
CACHE_SIZES = (1, 3, 6, 8, 10)
VIEWS = (1, 2, 4, 8, 16, 32)
VIEWED = 300  # embedded photographs that are cut into views: encoding them takes the time
CENTRES = {"mean": "mean", "attention": "attention", "EMA": "ema", "EMA without entropy selection": "ema_all"}

Settings = Mapping[str, Mapping[str, Any]]  # a row's name → parameters
Cells = dict[tuple[str, str], Spread]  # by row and base


def measured(context: Context, pack: FeaturePack, settings: Settings) -> tuple[Cells, Cells]:
    """Return accuracies by row and base; then, if the context asks for them, what the oracle reaches."""
    plain, oracle = {}, {}
    for row, parameters in settings.items():
        for base in BASES:
            plain[row, base] = accuracy(context, base, pack, **parameters)
            if context.oracle:
                oracle[row, base] = oracle_accuracy(context, base, pack, **parameters)
    return plain, oracle


def ablation_table(
    context: Context, pack: FeaturePack, name: str, axis: str, settings: Settings, cells: tuple[Cells, Cells]
) -> Table:
    """Put rows under the bases, zero-shot first, the published figures beside them."""
    plain, oracle = cells
    zero_shot = accuracy(context, "zero_shot", pack)
    columns = [axis, *BASES, *(f"{base}, oracle β" for base in BASES), "published", "published oracle"]
    beside = pair(name, "CLIP", "accuracy") if name not in UNPRINTED else (None, None)
    rows: list[list[Cell]] = [["CLIP", *[str(zero_shot)] * len(BASES), *[None] * len(BASES), *beside]]
    for row in settings:
        beside = pair(name, row, "accuracy") if name not in UNPRINTED else (None, None)
        found = [str(oracle[row, base]) if oracle else None for base in BASES]
        rows.append([row, *(str(plain[row, base]) for base in BASES), *found, *beside])
    return compact(f"{name}-{slug(pack.name)}", conditions(context, pack), columns, rows)


UNPRINTED = ("components", "ratio")  # pictures in the paper, without numbers


def ablation_chart(
    context: Context, pack: FeaturePack, name: str, axis: str, x: Sequence[Any], cells: tuple[Cells, Cells], title: str
) -> Chart:
    """Draw one line a base, dots where rows have no order; oracle lines are named so."""
    plain, oracle = cells
    series = [_series(base, base, x, plain) for base in BASES]
    if oracle:
        series += [_series(f"{base}, oracle β", base, x, oracle) for base in BASES]
    zero_shot = accuracy(context, "zero_shot", pack).mean
    series.append(Series("zero-shot CLIP", list(x), [zero_shot] * len(x)))
    kind = "bars" if isinstance(x[0], str) else "lines"
    return Chart(
        f"{name}-{slug(pack.name)}",
        f"{title}: {pack.name}",
        "bars" if kind == "bars" else "lines",
        axis,
        "top-1 accuracy (%)",
        series,
    )


def _series(name: str, base: str, x: Sequence[Any], cells: Cells) -> Series:
    found = [spread for (_, owner), spread in cells.items() if owner == base]
    return Series(name, list(x), [spread.mean for spread in found], [spread.deviation for spread in found])


def ablation(
    context: Context, name: str, title: str, axis: str, settings: Settings, x: Sequence[Any], *, needs_aux: bool
) -> Outcome:
    """Run every setting on every base and pack."""
    packs, missing = context.labelled()
    if needs_aux:
        missing += [NO_AUX.format(pack.name) for pack in packs if pack.aux is None]
        packs = [pack for pack in packs if pack.aux is not None]
    tables, charts = [], []
    for pack in packs:
        cells = measured(context, pack, settings)
        tables.append(ablation_table(context, pack, name, axis, settings, cells))
        charts.append(ablation_chart(context, pack, name, axis, x, cells, title))
    notes = [LABEL_FREE, *contradictions(name)]
    return Outcome(name, f"{title} ({where(name)})", tables, charts, notes, missing, context.settings)


def graph_ablation(context: Context) -> Outcome:
    """CLIP, CSS and AFV, alone and together."""
    packs, missing = context.labelled()
    missing += [NO_AUX.format(pack.name) for pack in packs if pack.aux is None]
    tables, charts = [], []
    for pack in packs:
        rows: list[list[Cell]] = []
        heights: dict[str, list[Spread]] = {base: [] for base in BASES}
        oracle: list[Cell] = []
        combinations = [names for names in COMBINATIONS if pack.aux is not None or "AFV" not in names]
        for names in combinations:
            row = " + ".join(names)
            beside = [
                cell for data in ("ImageNet", "Flower102") for cell in pair("graph-ablation", row, f"{data} accuracy")
            ]
            for base in BASES:
                heights[base].append(_combined(context, pack, base, names))
            full = context.oracle and len(names) > 1 and names == combinations[-1]
            oracle = [str(oracle_accuracy(context, base, pack)) if full else None for base in BASES]
            rows.append([row, *(str(heights[base][-1]) for base in BASES), *oracle, *beside])
        columns = [
            "branches",
            *BASES,
            *(f"{base}, oracle β" for base in BASES),
            "published ImageNet",
            "published ImageNet oracle",
            "published Flower102",
            "published Flower102 oracle",
        ]
        tables.append(compact(f"graph-ablation-{slug(pack.name)}", conditions(context, pack), columns, rows))
        names_of_rows = [" + ".join(names) for names in combinations]
        series = [
            Series(base, names_of_rows, [one.mean for one in found], [one.deviation for one in found])
            for base, found in heights.items()
        ]
        charts.append(
            Chart(
                f"graph-ablation-{slug(pack.name)}",
                f"Branches alone and together: {pack.name}",
                "bars",
                "branches",
                "top-1 accuracy (%)",
                series,
            )
        )
    notes = [
        LABEL_FREE,
        "Sums of two branches are at equal weights; the last row is the method's own fusion.",
        *contradictions("graph-ablation"),
    ]
    title = f"Graph ablation ({where('graph-ablation')})"
    return Outcome("graph-ablation", title, tables, charts, notes, missing, context.settings)


def _combined(context: Context, pack: FeaturePack, base: str, names: Sequence[str]) -> Spread:
    def measure(seed: int) -> float:
        run = context.run(base, pack, seed)
        true = truth(run, pack)
        if len(names) == len(run.parts.keys() & set(PARTS.values())):
            return run.report.metrics["acc1"]  # all branches: the method itself
        if "CLIP" not in names:
            return hits(run.parts[PARTS[names[0]]], true)
        return weighted_hits(run.parts, {PARTS[name]: 1.0 for name in names if name != "CLIP"}, true)

    return over_seeds(context, measure)


def components(context: Context) -> Outcome:
    """CLIP, then the dual graphs' nodes without a mask, then the mask of the nearest hyper-classes."""
    settings: Settings = {"+ DSG, no mask (r = 1)": {"ratio": 1.0}, "+ DSG + CGH (the preset's r)": {}}
    done = ablation(
        context, "components", "Components", "components", settings, ["+ DSG, no mask", "+ DSG + CGH"], needs_aux=False
    )
    packs, _ = context.labelled()
    note = (
        "The paper's bars have no printed numbers. Where a graph is one clique, every class is an inlier and the mask "
        "does nothing: so it is where the printed thresholds, 0.85 and 0.20, lie below all similarities."
    )
    return replace(done, tables=[*done.tables, _hyper_classes(context, packs)], notes=[*done.notes, note])


def _hyper_classes(context: Context, packs: Sequence[FeaturePack]) -> Table:
    """Count the hyper-classes at the end of a stream: the mask selects among them."""
    rows: list[list[Cell]] = []
    for pack, base in product(packs, BASES):
        method = make_method(base)
        for progress in evaluate(method, pack, seed=context.seeds[0], limit=context.limit):
            state: Any = progress.state
        cells: list[Cell] = []
        for space in (state.css, state.afv):
            sizes = [] if space is None else space.hyper.sizes.tolist()
            cells += [len(sizes), max(sizes)] if sizes else [None, None]
        rows.append([pack.name, base, values(method)["ratio"], len(pack.class_names), *cells])
    columns = ["pack", "method", "r", "classes", "CSS: hyper-classes", "largest", "AFV: hyper-classes", "largest "]
    return compact("components-hyper-classes", "Hyper-classes at the end of the stream", columns, rows)


def ratio(context: Context) -> Outcome:
    """The share r of the hyper-classes that select the inliers."""
    settings: Settings = {f"{share:g}": {"ratio": share} for share in RATIOS}
    done = ablation(context, "ratio", "Share of hyper-classes r", "r", settings, RATIOS, needs_aux=False)
    note = "The paper prints no numbers here, and calls r = 0.2 the best, with weights searched on labels."
    return replace(done, notes=[*done.notes, note])


def cache_size(context: Context) -> Outcome:
    """Slots a class in the auxiliary cache."""
    settings: Settings = {str(size): {"aux_shots": size} for size in CACHE_SIZES}
    done = ablation(
        context, "cache-size", "Slots a class in the auxiliary cache", "slots a class", settings, CACHE_SIZES,
        needs_aux=True,
    )  # fmt: skip
    return replace(done, notes=[*done.notes, "The CLIP cache keeps its 8 slots."])


def afv_centre(context: Context) -> Outcome:
    """How a class's auxiliary centre is made."""
    settings: Settings = {
        row: {"aux_centre": kind} | ({"unit_aux_centres": True} if kind == "attention" else {})
        for row, kind in CENTRES.items()
    }
    done = ablation(
        context, "afv-centre", "How an auxiliary centre is made", "centre", settings, list(CENTRES), needs_aux=True
    )
    note = (
        "An EMA keeps 0.9 of the centre. With selection it takes what the cache takes; without, every sample. Our "
        "default weighs the auxiliary slots themselves, so its answers do not depend on the centre."
    )
    return replace(done, notes=[*done.notes, note])


def views(context: Context) -> Outcome:
    """Views of an image: how sure a sample is, and as what it is cached."""
    packs: tuple[FeaturePack, ...] = context.packs or (embedded_views(min(context.limit or VIEWED, VIEWED), VIEWS[-1]),)
    tables, charts, missing, notes = [], [], [], [LABEL_FREE, *contradictions("views")]
    if not context.packs:
        notes += [f"The first {len(packs[0])} embedded photographs alone: encoding views takes the time.", MOVED]
    for pack in packs:
        there = pack.clip.shape[1]
        if pack.labels is None or there < 2:
            reason = "no labels" if pack.labels is None else "one view an image; make it anew with --views 32"
            missing.append(f"{pack.name}: {reason}.")
            continue
        counts = [count for count in VIEWS if count <= there]
        cells: tuple[Cells, Cells] = ({}, {})
        for count in counts:
            first = replace(pack, name=f"{pack.name}, first {count}", clip=pack.clip[:, :count])
            for all_cells, cell in zip(cells, measured(context, first, {str(count): {}}), strict=True):
                all_cells.update(cell)
        settings: Settings = {str(count): {} for count in counts}
        tables.append(ablation_table(context, pack, "views", "views", settings, cells))
        charts.append(ablation_chart(context, pack, "views", "views", counts, cells, "Views of an image"))
    title = f"Views of an image ({where('views')})"
    return Outcome("views", title, tables, charts, notes, missing, context.settings)


def aux_encoder(context: Context) -> Outcome:
    """Auxiliary features: those of the packs, none, and such that say nothing."""
    packs, missing = context.labelled()
    specs = (*BASES, "bayes_means")
    missing += [f"{pack.name}: no auxiliary features." for pack in packs if pack.aux is None]
    packs = [pack for pack in packs if pack.aux is not None]
    tables: list[Table] = []
    charts: list[Chart] = []
    for pack in packs:
        found = {spec: [accuracy(context, spec, pack, aux) for aux in AUX_KINDS] for spec in specs}
        names = [pack.aux_model or "given", *AUX_KINDS[1:]]
        rows: list[list[Cell]] = [["CLIP", *[str(accuracy(context, "zero_shot", pack))] * len(specs)]]
        rows += [[name, *(str(found[spec][place]) for spec in specs)] for place, name in enumerate(names)]
        columns = ["auxiliary features", *specs]
        tables.append(compact(f"aux-encoder-{slug(pack.name)}", conditions(context, pack), columns, rows))
        series = [
            Series(spec, list(AUX_KINDS), [one.mean for one in cells], [one.deviation for one in cells])
            for spec, cells in found.items()
        ]
        title = f"Auxiliary features: {pack.name}"
        charts.append(
            Chart(f"aux-encoder-{slug(pack.name)}", title, "bars", "auxiliary features", "top-1 accuracy (%)", series)
        )
    tables.append(as_table("aux-encoder", "aux-encoder-published"))
    notes = [
        LABEL_FREE,
        "Shuffled and random features say nothing: what is lost against `none` is the harm of a useless encoder.",
        "Several encoders are compared by giving one pack for each.",
        *contradictions("aux-encoder"),
    ]
    title = f"Auxiliary encoders ({where('aux-encoder')})"
    return Outcome("aux-encoder", title, tables, charts, notes, missing, context.settings)
