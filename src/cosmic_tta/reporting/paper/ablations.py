"""The paper's ablations: branches, mask, share of hyper-classes, cache, views, class centres, auxiliary features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from cosmic_tta.core.parameters import values
from cosmic_tta.evaluation.evaluator import evaluate
from cosmic_tta.evaluation.oracle import weighted_accuracy
from cosmic_tta.features.pack import AUX_KINDS, FeaturePack
from cosmic_tta.methods import make_method
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.embedded_packs import VIEWS_NOTE, embedded_views
from cosmic_tta.reporting.paper.published import contradiction_notes, published_cells, published_table, reference
from cosmic_tta.reporting.paper.seed_accuracy import (
    COSMIC_PRESETS,
    LABEL_FREE_NOTE,
    SeedAccuracies,
    accuracy,
    compact_table,
    labels_in_order,
    oracle_accuracy,
    over_seeds,
    stream_description,
    top1_fraction,
)

BRANCH_COMBINATIONS = (("CLIP",), ("CSS",), ("AFV",), ("CLIP", "CSS"), ("CLIP", "AFV"), ("CLIP", "CSS", "AFV"))
PARTS = {"CLIP": "zero_shot", "CSS": "css", "AFV": "afv"}
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
CACHE_SIZES = (1, 3, 6, 8, 10)
VIEW_COUNTS = (1, 2, 4, 8, 16, 32)
MAX_VIEW_IMAGES = 300  # embedded photographs with views, because encoding them takes long
CENTRES = {"mean": "mean", "attention": "attention", "EMA": "ema", "EMA without entropy selection": "ema_all"}
WITHOUT_NUMBERS = ("components", "ratio")  # figures of the paper that print no numbers
ACCURACY_TITLE = "top-1 accuracy (%)"

Settings = Mapping[str, Mapping[str, Any]]  # name of a row → parameters
Cells = dict[tuple[str, str], SeedAccuracies]  # by row and preset


def measure_settings(context: ExperimentContext, pack: FeaturePack, settings: Settings) -> tuple[Cells, Cells]:
    """Return the accuracies by row and preset, and those of the oracle, which are empty if it is not asked for."""
    plain, oracle = {}, {}
    for row, parameters in settings.items():
        for preset in COSMIC_PRESETS:
            plain[row, preset] = accuracy(context, preset, pack, **parameters)
            if context.oracle:
                oracle[row, preset] = oracle_accuracy(context, preset, pack, **parameters)
    return plain, oracle


def ablation_table(
    context: ExperimentContext, pack: FeaturePack, name: str, axis: str, settings: Settings, cells: tuple[Cells, Cells]
) -> Table:
    """Return one row per setting and one column per preset, with zero-shot first and the published numbers last."""
    plain, oracle = cells
    zero_shot = accuracy(context, "zero_shot", pack)
    presets = COSMIC_PRESETS
    columns = [axis, *presets, *(f"{preset}, oracle β" for preset in presets), "published", "published oracle"]

    def published(row: str) -> tuple[Cell, Cell]:
        return (None, None) if name in WITHOUT_NUMBERS else published_cells(name, row, "accuracy")

    rows: list[list[Cell]] = [["CLIP", *[str(zero_shot)] * len(presets), *[None] * len(presets), *published("CLIP")]]
    for row in settings:
        tuned = [str(oracle[row, preset]) if oracle else None for preset in presets]
        rows.append([row, *(str(plain[row, preset]) for preset in presets), *tuned, *published(row)])
    return compact_table(f"{name}-{slug(pack.name)}", stream_description(context, pack), columns, rows)


def ablation_chart(
    context: ExperimentContext,
    pack: FeaturePack,
    name: str,
    axis: str,
    x: Sequence[Any],
    cells: tuple[Cells, Cells],
    title: str,
) -> Chart:
    """Return one line per preset, or bars if the settings have no order."""
    plain, oracle = cells
    series = [_preset_series(preset, preset, x, plain) for preset in COSMIC_PRESETS]
    if oracle:
        series += [_preset_series(f"{preset}, oracle β", preset, x, oracle) for preset in COSMIC_PRESETS]
    zero_shot = accuracy(context, "zero_shot", pack).mean
    series.append(Series("zero-shot CLIP", list(x), [zero_shot] * len(x)))
    kind: Any = "bars" if isinstance(x[0], str) else "lines"
    return Chart(f"{name}-{slug(pack.name)}", f"{title}: {pack.name}", kind, axis, ACCURACY_TITLE, series)


def _preset_series(name: str, preset: str, x: Sequence[Any], cells: Cells) -> Series:
    return _accuracy_series(name, x, [cell for (_, owner), cell in cells.items() if owner == preset])


def _accuracy_series(name: str, x: Sequence[Any], cells: Sequence[SeedAccuracies]) -> Series:
    return Series(name, list(x), [cell.mean for cell in cells], [cell.deviation for cell in cells])


def ablation(
    context: ExperimentContext,
    name: str,
    title: str,
    axis: str,
    settings: Settings,
    x: Sequence[Any],
    *,
    needs_aux: bool,
) -> ResultSet:
    """Run every setting with every preset on every pack."""
    packs, missing = context.labelled_packs()
    if needs_aux:
        missing += _without_aux(packs)
        packs = [pack for pack in packs if pack.aux is not None]
    tables, charts = [], []
    for pack in packs:
        cells = measure_settings(context, pack, settings)
        tables.append(ablation_table(context, pack, name, axis, settings, cells))
        charts.append(ablation_chart(context, pack, name, axis, x, cells, title))
    notes = [LABEL_FREE_NOTE, *contradiction_notes(name)]
    return ResultSet(name, f"{title} ({reference(name)})", tables, charts, notes, missing, context.settings)


def _without_aux(packs: Sequence[FeaturePack]) -> list[str]:
    return [f"{pack.name}: no auxiliary features, so no AFV." for pack in packs if pack.aux is None]


def graph_ablation(context: ExperimentContext) -> ResultSet:
    """Return the accuracy of CLIP, CSS and AFV, alone and combined."""
    packs, missing = context.labelled_packs()
    missing += _without_aux(packs)
    tables, charts = [], []
    for pack in packs:
        combinations = [names for names in BRANCH_COMBINATIONS if pack.aux is not None or "AFV" not in names]
        cells = {
            preset: [_combination_accuracy(context, pack, preset, names) for names in combinations]
            for preset in COSMIC_PRESETS
        }
        tables.append(_combination_table(context, pack, combinations, cells))
        names = [" + ".join(names) for names in combinations]
        series = [_accuracy_series(preset, names, found) for preset, found in cells.items()]
        title = f"Branches alone and combined: {pack.name}"
        charts.append(Chart(f"graph-ablation-{slug(pack.name)}", title, "bars", "branches", ACCURACY_TITLE, series))
    notes = [
        LABEL_FREE_NOTE,
        "Sums of two branches have equal weights; the last row is the method's own fusion.",
        *contradiction_notes("graph-ablation"),
    ]
    title = f"Graph ablation ({reference('graph-ablation')})"
    return ResultSet("graph-ablation", title, tables, charts, notes, missing, context.settings)


def _combination_table(
    context: ExperimentContext,
    pack: FeaturePack,
    combinations: Sequence[tuple[str, ...]],
    cells: Mapping[str, Sequence[SeedAccuracies]],
) -> Table:
    """Return one row per combination of branches; only the full fusion has weights that the oracle can search."""
    rows: list[list[Cell]] = []
    for index, names in enumerate(combinations):
        row = " + ".join(names)
        with_oracle = context.oracle and len(names) > 1 and names == combinations[-1]
        oracle = [str(oracle_accuracy(context, preset, pack)) if with_oracle else None for preset in COSMIC_PRESETS]
        published = [
            cell
            for dataset in ("ImageNet", "Flower102")
            for cell in published_cells("graph-ablation", row, f"{dataset} accuracy")
        ]
        rows.append([row, *(str(cells[preset][index]) for preset in COSMIC_PRESETS), *oracle, *published])
    columns = [
        "branches",
        *COSMIC_PRESETS,
        *(f"{preset}, oracle β" for preset in COSMIC_PRESETS),
        "published ImageNet",
        "published ImageNet oracle",
        "published Flower102",
        "published Flower102 oracle",
    ]
    return compact_table(f"graph-ablation-{slug(pack.name)}", stream_description(context, pack), columns, rows)


def _combination_accuracy(
    context: ExperimentContext, pack: FeaturePack, preset: str, names: Sequence[str]
) -> SeedAccuracies:
    """Return the accuracy of some branches: one alone, an equally weighted sum, or the method's own fusion of all."""

    def measure(seed: int) -> float:
        run = context.run(preset, pack, seed)
        labels = labels_in_order(run, pack)
        if len(names) == len(run.parts.keys() & set(PARTS.values())):
            return run.report.metrics["acc1"]
        if "CLIP" not in names:
            return top1_fraction(run.parts[PARTS[names[0]]], labels)
        return weighted_accuracy(run.parts, {PARTS[name]: 1.0 for name in names if name != "CLIP"}, labels)

    return over_seeds(context, measure)


def components(context: ExperimentContext) -> ResultSet:
    """Return the accuracy of CLIP, of the dual graphs without a mask, and with the mask of nearest hyper-classes."""
    settings: Settings = {"+ DSG, no mask (r = 1)": {"ratio": 1.0}, "+ DSG + CGH (the preset's r)": {}}
    results = ablation(
        context, "components", "Components", "components", settings, ["+ DSG, no mask", "+ DSG + CGH"], needs_aux=False
    )
    packs, _ = context.labelled_packs()
    note = (
        "The paper's bars have no printed numbers. If a graph is one clique, every class is an inlier and the mask has "
        "no effect. This happens when the printed thresholds, 0.85 and 0.20, are below all similarities."
    )
    return replace(results, tables=[*results.tables, _hyper_class_table(context, packs)], notes=[*results.notes, note])


def _hyper_class_table(context: ExperimentContext, packs: Sequence[FeaturePack]) -> Table:
    """Count the hyper-classes at the end of the stream, among which the mask selects."""
    rows: list[list[Cell]] = []
    for pack, preset in product(packs, COSMIC_PRESETS):
        method = make_method(preset)
        for progress in evaluate(method, pack, seed=context.seeds[0], limit=context.limit):
            state: Any = progress.state
        cells: list[Cell] = []
        for space in (state.css, state.afv):
            sizes = [] if space is None else space.hyperclasses.sizes.tolist()
            cells += [len(sizes), max(sizes)] if sizes else [None, None]
        rows.append([pack.name, preset, values(method)["ratio"], len(pack.class_names), *cells])
    columns = ["pack", "method", "r", "classes", "CSS: hyper-classes", "largest", "AFV: hyper-classes", "largest "]
    return compact_table("components-hyper-classes", "Hyper-classes at the end of the stream", columns, rows)


def ratio(context: ExperimentContext) -> ResultSet:
    """Return the accuracy over the share r of hyper-classes that select the inliers."""
    settings: Settings = {f"{share:g}": {"ratio": share} for share in RATIOS}
    results = ablation(context, "ratio", "Share of hyper-classes r", "r", settings, RATIOS, needs_aux=False)
    note = "The paper prints no numbers here. It names r = 0.2 as the best, with weights searched on labels."
    return replace(results, notes=[*results.notes, note])


def cache_size(context: ExperimentContext) -> ResultSet:
    """Return the accuracy over the number of slots per class in the auxiliary cache."""
    settings: Settings = {str(size): {"aux_shots": size} for size in CACHE_SIZES}
    results = ablation(
        context, "cache-size", "Slots per class in the auxiliary cache", "slots per class", settings, CACHE_SIZES,
        needs_aux=True,
    )  # fmt: skip
    return replace(results, notes=[*results.notes, "The CLIP cache keeps its 8 slots per class."])


def afv_centre(context: ExperimentContext) -> ResultSet:
    """Return the accuracy of several ways to compute the auxiliary class centres."""
    settings: Settings = {
        row: {"aux_centre": kind} | ({"unit_aux_centres": True} if kind == "attention" else {})
        for row, kind in CENTRES.items()
    }
    results = ablation(
        context, "afv-centre", "Auxiliary class centres", "centre", settings, list(CENTRES), needs_aux=True
    )
    note = (
        "The EMA keeps 0.9 of the centre at each update. With selection it uses the samples that enter the cache, "
        "without it every sample. Our default scores the auxiliary slots themselves, so the centre does not change its "
        "predictions."
    )
    return replace(results, notes=[*results.notes, note])


def views(context: ExperimentContext) -> ResultSet:
    """Return the accuracy over the number of views per image."""
    packs: tuple[FeaturePack, ...] = context.packs or (embedded_pack_with_views(context),)
    tables, charts, missing, notes = [], [], [], [LABEL_FREE_NOTE, *contradiction_notes("views")]
    if not context.packs:
        notes += [f"Only the first {len(packs[0])} embedded photographs: encoding views takes long.", VIEWS_NOTE]
    for pack in packs:
        available = pack.clip.shape[1]
        if pack.labels is None or available < 2:
            reason = "no labels" if pack.labels is None else "one view per image; extract it again with --views 32"
            missing.append(f"{pack.name}: {reason}.")
            continue
        counts = [count for count in VIEW_COUNTS if count <= available]
        cells: tuple[Cells, Cells] = ({}, {})
        for count in counts:
            first = replace(pack, name=f"{pack.name}, first {count}", clip=pack.clip[:, :count])
            for all_cells, cell in zip(cells, measure_settings(context, first, {str(count): {}}), strict=True):
                all_cells.update(cell)
        settings: Settings = {str(count): {} for count in counts}
        tables.append(ablation_table(context, pack, "views", "views", settings, cells))
        charts.append(ablation_chart(context, pack, "views", "views", counts, cells, "Views per image"))
    title = f"Views per image ({reference('views')})"
    return ResultSet("views", title, tables, charts, notes, missing, context.settings)


def embedded_pack_with_views(context: ExperimentContext) -> FeaturePack:
    """Return the first embedded photographs with as many views as the paper's largest number."""
    return embedded_views(min(context.limit or MAX_VIEW_IMAGES, MAX_VIEW_IMAGES), VIEW_COUNTS[-1])


def aux_encoder(context: ExperimentContext) -> ResultSet:
    """Return the accuracy with the pack's auxiliary features, with none, and with uninformative ones."""
    packs, missing = context.labelled_packs()
    specs = (*COSMIC_PRESETS, "bayes_means")
    missing += [f"{pack.name}: no auxiliary features." for pack in packs if pack.aux is None]
    packs = [pack for pack in packs if pack.aux is not None]
    tables: list[Table] = []
    charts: list[Chart] = []
    for pack in packs:
        cells = {spec: [accuracy(context, spec, pack, aux) for aux in AUX_KINDS] for spec in specs}
        names = [pack.aux_model or "given", *AUX_KINDS[1:]]
        rows: list[list[Cell]] = [["CLIP", *[str(accuracy(context, "zero_shot", pack))] * len(specs)]]
        rows += [[name, *(str(cells[spec][index]) for spec in specs)] for index, name in enumerate(names)]
        columns = ["auxiliary features", *specs]
        name, title = f"aux-encoder-{slug(pack.name)}", f"Auxiliary features: {pack.name}"
        tables.append(compact_table(name, stream_description(context, pack), columns, rows))
        series = [_accuracy_series(spec, AUX_KINDS, found) for spec, found in cells.items()]
        charts.append(Chart(name, title, "bars", "auxiliary features", ACCURACY_TITLE, series))
    tables.append(published_table("aux-encoder", "aux-encoder-published"))
    notes = [
        LABEL_FREE_NOTE,
        "Shuffled and random features carry no information. The loss against `none` is the harm that a useless encoder "
        "does.",
        "To compare several encoders, give one pack per encoder.",
        *contradiction_notes("aux-encoder"),
    ]
    title = f"Auxiliary encoders ({reference('aux-encoder')})"
    return ResultSet("aux-encoder", title, tables, charts, notes, missing, context.settings)
