"""The paper's two large tables: ImageNet with its variants, and ten data sets of other domains."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cosmic_tta.data.datasets.registry import CATALOGUE
from cosmic_tta.data.datasets.registry import published as catalogue_entry
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.embedded_packs import (
    ALL_IMAGES,
    GENERATED_VIEWS,
    SHOTS,
    STREAM_IMAGES,
    VIEWS_NOTE,
    embedded_views,
)
from cosmic_tta.reporting.paper.published import (
    contradiction_notes,
    published_cells,
    published_data,
    published_number,
    reference,
)
from cosmic_tta.reporting.paper.seed_accuracy import (
    LABEL_FREE_NOTE,
    SeedAccuracies,
    accuracy,
    compact_table,
    oracle_accuracy,
)
from cosmic_tta.reporting.tables import counted


@dataclass(frozen=True)
class BenchmarkedMethod:
    """A row of the tables, and how it is run here."""

    title: str
    spec: str
    published_row: str = ""  # its name in the paper's tables
    has_fusion_weights: bool = False  # which the oracle can search


METHODS = (
    BenchmarkedMethod("CLIP", "zero_shot", "CLIP"),
    BenchmarkedMethod("CoOp", "coop", "CoOp"),
    BenchmarkedMethod("CoCoOp", "cocoop", "CoCoOp"),
    BenchmarkedMethod("Tip-Adapter", "tip_adapter"),
    BenchmarkedMethod("Tip-Adapter-F", "tip_adapter_f"),
    BenchmarkedMethod("TPT", "tpt", "TPT"),
    BenchmarkedMethod("DiffTPT", "difftpt", "DiffTPT"),
    BenchmarkedMethod("TDA", "tda", "TDA"),
    BenchmarkedMethod("DMN", "dmn", "DMN", has_fusion_weights=True),
    BenchmarkedMethod(
        "COSMIC, the authors' program at β = 1, 1, 1", "cosmic@official", "COSMIC", has_fusion_weights=True
    ),
    BenchmarkedMethod("COSMIC as printed", "cosmic@paper", has_fusion_weights=True),
    BenchmarkedMethod("COSMIC, our default", "cosmic", has_fusion_weights=True),
    BenchmarkedMethod("Bayesian class means (ours)", "bayes_means"),
)
BACKBONE_PATTERNS = {"RN50": r"rn-?50(?!x)|resnet-?50", "ViT-B/16": r"vit-?b[-/_]?16|vit-base-patch16"}
CLIP_MODELS = {"RN50": "clip-resnet:RN50.pt", "ViT-B/16": "hf:openai/clip-vit-base-patch16"}
AUX_MODEL = "hf:facebook/dinov2-large"
EMBEDDED_NOTE = (
    f"The stream is the first {STREAM_IMAGES:,} embedded photographs. CoOp, CoCoOp, Tip-Adapter and Tip-Adapter-F had "
    f"{SHOTS} labelled shots per class from the other {ALL_IMAGES - STREAM_IMAGES}, under the same shift; the other "
    f"methods had none. DiffTPT had {GENERATED_VIEWS} more views from the small embedded diffusion model."
)
NOT_RUN = "not run; the reason is listed under missing"
COLUMNS = ("data set", "method", "ours", "ours, gain", "ours, oracle", "published", "published oracle", "remark")

Measured = dict[str, tuple[SeedAccuracies, SeedAccuracies | None]]  # method title → accuracy, oracle accuracy


def table_ood(context: ExperimentContext) -> ResultSet:
    """Return all methods on ImageNet and its four variants."""
    datasets = {
        "ImageNet": "imagenet",
        "ImageNet-A": "imagenet_a",
        "ImageNet-V2": "imagenet_v2",
        "ImageNet-R": "imagenet_r",
        "ImageNet-S": "imagenet_sketch",
    }
    return _benchmark(context, "table-ood", datasets, "ImageNet and its variants")


def table_cd(context: ExperimentContext) -> ResultSet:
    """Return all methods on ten data sets of other domains."""
    datasets = {
        "Aircraft": "fgvc_aircraft",
        "Caltech101": "caltech101",
        "Cars": "stanford_cars",
        "DTD": "dtd",
        "EuroSAT": "eurosat",
        "Flower102": "flowers102",
        "Food101": "food101",
        "Pets": "oxford_pets",
        "SUN397": "sun397",
        "UCF101": "ucf101",
    }
    return _benchmark(context, "table-cd", datasets, "Ten data sets of other domains")


def _benchmark(context: ExperimentContext, name: str, datasets: dict[str, str], title: str) -> ResultSet:
    """Return one table per pack outside the paper, and one per backbone of the paper."""
    packs, missing = context.labelled_packs(context.packs or (embedded_views(),))
    origins = {pack.name: (dataset_of(pack, datasets), backbone_of(pack)) for pack in packs}
    tables, charts = [], []
    for pack in (pack for pack in packs if None in origins[pack.name]):
        measured = _measure(context, pack)
        tables.append(_own_table(context, name, pack, measured))
        charts.append(_chart(name, pack.name, measured))
    for backbone in BACKBONE_PATTERNS:
        rows: list[list[Cell]] = []
        by_method: dict[str, list[SeedAccuracies]] = {}
        for column, key in datasets.items():
            owners = [pack for pack in packs if origins[pack.name] == (key, backbone)]
            if not owners:
                missing.append(f"{column}, {backbone}: no pack. {_extract_command(key, backbone)}")
                rows += _rows(name, column, backbone, {}, "no pack", {})
                continue
            if len(owners) > 1:
                missing.append(f"{column}, {backbone}: several packs; only {owners[0].name} is shown.")
            measured = _measure(context, owners[0])
            charts.append(_chart(name, column, measured, backbone))
            remark, reasons = _remark(context, owners[0], key), _why_not_runnable(context, owners[0])
            rows += _rows(name, column, backbone, measured, remark, reasons)
            for method, (cells, _) in measured.items():
                by_method.setdefault(method, []).append(cells)
        rows += _average_rows(name, backbone, by_method, len(datasets))
        tables.append(compact_table(f"{name}-{slug(backbone)}", f"{title}, CLIP {backbone}", COLUMNS, rows, keep=3))
    missing += dict.fromkeys(
        f"{method}: {reason}." for pack in packs for method, reason in _why_not_runnable(context, pack).items()
    )
    notes = [
        LABEL_FREE_NOTE,
        "`published oracle`: DMN and COSMIC were published with weights searched on the test labels. These numbers are "
        "not comparable with ours, which used no labels.",
        "Mean ± standard deviation over the seeds; zero-shot uses the pack's own prompts.",
        *([] if context.packs else [EMBEDDED_NOTE, VIEWS_NOTE]),
        *contradiction_notes(name),
    ]
    return ResultSet(name, f"{title} ({reference(name)})", tables, charts, notes, missing, context.settings)


def backbone_of(pack: FeaturePack) -> str | None:
    """Return which of the paper's CLIP encoders made a pack's features; None for another."""
    model = pack.clip_model.lower()
    return next((name for name, pattern in BACKBONE_PATTERNS.items() if re.search(pattern, model)), None)


def dataset_of(pack: FeaturePack, datasets: dict[str, str]) -> str | None:
    """Return the data set whose name a pack's name begins with, the longest if several match; None for another."""
    pack_name = re.sub("[^a-z0-9]", "", pack.name.lower())
    matches = {}
    for key in CATALOGUE:
        entry = catalogue_entry(key)
        for name in (entry.key, entry.title, *entry.aliases):
            prefix = re.sub("[^a-z0-9]", "", name.lower())
            if pack_name.startswith(prefix):
                matches[prefix] = key
    longest = matches[max(matches, key=len)] if matches else None
    return longest if longest in datasets.values() else None


def _measure(context: ExperimentContext, pack: FeaturePack) -> Measured:
    measured: Measured = {}
    not_runnable = _why_not_runnable(context, pack)
    for method in METHODS:
        if method.title in not_runnable:
            continue
        with_oracle = context.oracle and method.has_fusion_weights
        oracle = oracle_accuracy(context, method.spec, pack) if with_oracle else None
        measured[method.title] = (accuracy(context, method.spec, pack), oracle)
    return measured


def _why_not_runnable(context: ExperimentContext, pack: FeaturePack) -> dict[str, str]:
    """Return the reasons for the methods that cannot run on a pack, by their titles."""
    return {method.title: reason for method in METHODS if (reason := context.why_not_runnable(method.spec, pack))}


def _rows(
    name: str, column: str, backbone: str | None, measured: Measured, remark: str, not_run: Collection[str]
) -> list[list[Cell]]:
    """Return the rows of one data set, one per method."""
    rows: list[list[Cell]] = []
    for method in METHODS:
        if not measured and not method.published_row:
            continue
        published: tuple[Cell, Cell] = (None, None)
        if method.published_row and backbone is not None:
            published = published_cells(name, method.published_row, column, backbone)
        ours, oracle = measured.get(method.title, (None, None))
        zero_shot = measured["CLIP"][0].mean if measured else 0.0
        gain = f"{round(ours.mean - zero_shot, 2) + 0.0:+.2f}" if ours and method.spec != "zero_shot" else None
        remarks = (remark if method is METHODS[0] else "", NOT_RUN if method.title in not_run else "")
        rows.append(
            [column, method.title, _text(ours), gain, _text(oracle), *published, "; ".join(filter(None, remarks))]
        )
    return rows


def _chart(name: str, column: str, measured: Measured, backbone: str | None = None) -> Chart:
    """Return the accuracy of every method on a data set, with the published numbers beside it."""
    methods = [method for method in METHODS if method.title in measured]
    values: dict[str, list[Any]] = {
        "ours": [measured[method.title][0].mean for method in methods],
        "ours, oracle": [None if (best := measured[method.title][1]) is None else best.mean for method in methods],
    }
    if backbone is not None:
        numbers = [
            published_number(name, method.published_row, column, backbone) if method.published_row else None
            for method in methods
        ]
        for kind, tuned in (("published", False), ("published oracle", True)):
            values[kind] = [number.value if number and number.oracle is tuned else None for number in numbers]
    titles = [method.title for method in methods]
    series = [
        Series(kind, titles, [float("nan") if value is None else float(value) for value in found])
        for kind, found in values.items()
        if any(value is not None for value in found)
    ]
    stream = column if backbone is None else f"{column}, CLIP {backbone}"
    return Chart(slug(name, stream), f"All methods: {stream}", "bars", "method", "top-1 accuracy (%)", series)


def _average_rows(
    name: str, backbone: str, by_method: dict[str, list[SeedAccuracies]], datasets: int
) -> list[list[Cell]]:
    """Return the averages over data sets; ours need all of them."""
    rows: list[list[Cell]] = []
    columns = [column for column in published_data()["tables"][name]["columns"] if "Average" in column]
    for column in columns:
        for method in METHODS:
            if not method.published_row:
                continue
            cells = by_method.get(method.title, [])
            ours: SeedAccuracies | None = None
            if len(cells) == datasets:
                averaged = cells[1:] if column.startswith("OOD") else cells
                per_seed = zip(*(cell.values for cell in averaged), strict=True)
                ours = SeedAccuracies(tuple(sum(seed) / len(seed) for seed in per_seed))
            published = published_cells(name, method.published_row, column, backbone)
            rows.append([column, method.title, _text(ours), None, None, *published, ""])
    return rows


def _own_table(context: ExperimentContext, name: str, pack: FeaturePack, measured: Measured) -> Table:
    """Return the table of a pack that the paper does not have."""
    remark = f"{pack.clip_model}, aux {pack.aux_model or 'none'}, {counted(pack.clip.shape[1], 'view')}"
    rows = _rows(name, pack.name, None, measured, remark, _why_not_runnable(context, pack))
    title = f"{pack.name}: not in the paper's table"
    return compact_table(f"{name}-{slug(pack.name)}", title, COLUMNS, rows, keep=3)


def _remark(context: ExperimentContext, pack: FeaturePack, key: str) -> str:
    images = len(pack) if context.limit is None else min(context.limit, len(pack))
    remarks = [f"aux {pack.aux_model or 'none'}", counted(pack.clip.shape[1], "view")]
    all_images = CATALOGUE[key].sizes["test"]
    if images != all_images:
        remarks.append(f"{images} of {all_images} images")
    return ", ".join(remarks)


def _extract_command(key: str, backbone: str) -> str:
    out = f"{key}-{slug(backbone)}"
    return f"Make it: cosmic extract {key} --root DATA --clip {CLIP_MODELS[backbone]} --aux {AUX_MODEL} --out {out}"


def _text(cells: SeedAccuracies | None) -> Cell:
    return None if cells is None else str(cells)
