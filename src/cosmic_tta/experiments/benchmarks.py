"""The paper's two large tables: ImageNet with its variants, and ten data sets of other domains."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cosmic_tta.charts import Cell, Chart, Outcome, Series, Table, slug
from cosmic_tta.datasets.catalogue import CATALOGUE
from cosmic_tta.datasets.catalogue import published as data_set
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.embedded import DRAWN, IMAGES, SHOTS, STREAM, VIEWED, embedded_views
from cosmic_tta.experiments.measures import LABEL_FREE, Spread, accuracy, compact, oracle_accuracy
from cosmic_tta.experiments.published import contradictions, data, figure, pair, where
from cosmic_tta.packs import FeaturePack


@dataclass(frozen=True)
class Row:
    """A method of the paper's tables, and how it is run here."""

    title: str
    spec: str
    published: str = ""  # its name in the paper's tables
    weighed: bool = False  # has weights that an oracle could search


ROWS = (
    Row("CLIP", "zero_shot", "CLIP"),
    Row("CoOp", "coop", "CoOp"),
    Row("CoCoOp", "cocoop", "CoCoOp"),
    Row("Tip-Adapter", "tip_adapter"),
    Row("Tip-Adapter-F", "tip_adapter_f"),
    Row("TPT", "tpt", "TPT"),
    Row("DiffTPT", "difftpt", "DiffTPT"),
    Row("TDA", "tda", "TDA"),
    Row("DMN", "dmn", "DMN", weighed=True),
    Row("COSMIC, the authors' program at β = 1, 1, 1", "cosmic@official", "COSMIC", weighed=True),
    Row("COSMIC as printed", "cosmic@paper", weighed=True),
    Row("COSMIC, our default", "cosmic", weighed=True),
    Row("Bayesian class means (ours)", "bayes_means"),
)
BACKBONES = {"RN50": r"rn-?50(?!x)|resnet-?50", "ViT-B/16": r"vit-?b[-/_]?16|vit-base-patch16"}
CLIPS = {"RN50": "clip-resnet:RN50.pt", "ViT-B/16": "hf:openai/clip-vit-base-patch16"}
AUX = "hf:facebook/dinov2-large"
BESIDE = (
    f"The stream is the first {STREAM:,} embedded photographs; CoOp, CoCoOp, Tip-Adapter and Tip-Adapter-F had "
    f"{SHOTS} labelled shots of each class from the other {IMAGES - STREAM}, under the same shift; the others none. "
    f"DiffTPT had {DRAWN} views more, drawn by the embedded diffusion model, which is no large one."
)
ABSENT = "not run; missing, below, says why"
COLUMNS = ("data set", "method", "ours", "ours, gain", "ours, oracle", "published", "published oracle", "remark")


def table_ood(context: Context) -> Outcome:
    """ImageNet and its four variants."""
    sets = {
        "ImageNet": "imagenet",
        "ImageNet-A": "imagenet_a",
        "ImageNet-V2": "imagenet_v2",
        "ImageNet-R": "imagenet_r",
    }
    return _benchmark(context, "table-ood", sets | {"ImageNet-S": "imagenet_sketch"}, "ImageNet and its variants")


def table_cd(context: Context) -> Outcome:
    """Ten data sets of other domains."""
    names = ("Aircraft", "Caltech101", "Cars", "DTD", "EuroSAT", "Flower102", "Food101", "Pets", "SUN397", "UCF101")
    keys = ("fgvc_aircraft", "caltech101", "stanford_cars", "dtd", "eurosat", "flowers102", "food101", "oxford_pets")
    sets = dict(zip(names, (*keys, "sun397", "ucf101"), strict=True))
    return _benchmark(context, "table-cd", sets, "Ten data sets of other domains")


def _benchmark(context: Context, name: str, sets: dict[str, str], title: str) -> Outcome:
    packs, missing = context.labelled(context.packs or (embedded_views(),))
    placed = {pack.name: (set_of(pack, sets), backbone_of(pack)) for pack in packs}
    tables, charts = [], []
    for pack in (pack for pack in packs if None in placed[pack.name]):  # others than the paper's
        found = _measured(context, pack)
        tables.append(_own_table(context, name, pack, found))
        charts.append(_chart(name, pack.name, found))
    for backbone in BACKBONES:
        rows: list[list[Cell]] = []
        averages: dict[str, list[Spread]] = {}
        for column, key in sets.items():
            owners = [pack for pack in packs if placed[pack.name] == (key, backbone)]
            if len(owners) > 1:
                missing.append(f"{column}, {backbone}: several packs; {owners[0].name} is shown.")
            found = _measured(context, owners[0]) if owners else {}
            remark = _remark(context, owners[0], key) if owners else "no pack"
            if not owners:
                missing.append(f"{column}, {backbone}: no pack. {_how(key, backbone)}")
            else:
                charts.append(_chart(name, column, found, backbone))
            rows += _rows(name, column, backbone, found, remark, _reasons(context, owners[0]) if owners else {})
            for row, (spread, _) in found.items():
                averages.setdefault(row, []).append(spread)
        rows += _average_rows(name, backbone, averages, len(sets))
        tables.append(compact(f"{name}-{slug(backbone)}", f"{title}, CLIP {backbone}", COLUMNS, rows, keep=3))
    missing += dict.fromkeys(f"{title}: {why}." for pack in packs for title, why in _reasons(context, pack).items())
    notes = [
        LABEL_FREE,
        "`published oracle`: DMN and COSMIC were published with weights searched on the test labels; those figures are "
        "not to be compared with ours, which saw none.",
        "Mean ± deviation over the seeds; zero-shot with the pack's own prompts.",
        *([] if context.packs else [BESIDE, VIEWED]),
        *contradictions(name),
    ]
    return Outcome(name, f"{title} ({where(name)})", tables, charts, notes, missing, context.settings)


def backbone_of(pack: FeaturePack) -> str | None:
    """Return which of the paper's encoders made a pack's CLIP features; None for another."""
    model = pack.clip_model.lower()
    return next((name for name, pattern in BACKBONES.items() if re.search(pattern, model)), None)


def set_of(pack: FeaturePack, sets: dict[str, str]) -> str | None:
    """Return which data set a pack's name begins with, the longest if several do; None for another."""
    plain = re.sub("[^a-z0-9]", "", pack.name.lower())
    found = {}
    for key in CATALOGUE:
        row = data_set(key)
        for name in (row.key, row.title, *row.aliases):
            short = re.sub("[^a-z0-9]", "", name.lower())
            if plain.startswith(short):
                found[short] = key
    nearest = found[max(found, key=len)] if found else None
    return nearest if nearest in sets.values() else None


Measured = dict[str, tuple[Spread, Spread | None]]  # a row's title → accuracy; what the oracle reaches


def _measured(context: Context, pack: FeaturePack) -> Measured:
    found: Measured = {}
    absent = _reasons(context, pack)
    for row in ROWS:
        if row.title in absent:
            continue
        oracle = oracle_accuracy(context, row.spec, pack) if context.oracle and row.weighed else None
        found[row.title] = (accuracy(context, row.spec, pack), oracle)
    return found


def _reasons(context: Context, pack: FeaturePack) -> dict[str, str]:
    """Return why rows are not run on a pack, by their titles."""
    return {row.title: why for row in ROWS if (why := context.hindrance(row.spec, pack))}


def _rows(
    name: str, column: str, backbone: str | None, found: Measured, remark: str, absent: Collection[str]
) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for row in ROWS:
        if not found and not row.published:
            continue
        beside: tuple[Cell, Cell] = (None, None)
        if row.published and backbone is not None:
            beside = pair(name, row.published, column, backbone)
        ours, oracle = found.get(row.title, (None, None))
        start = found["CLIP"][0].mean if found else 0.0
        gain = f"{round(ours.mean - start, 2) + 0.0:+.2f}" if ours and row.spec != "zero_shot" else None
        told = "; ".join(
            part for part in (remark if row is ROWS[0] else "", ABSENT if row.title in absent else "") if part
        )
        rows.append([column, row.title, _text(ours), gain, _text(oracle), *beside, told])
    return rows


def _chart(name: str, column: str, found: Measured, backbone: str | None = None) -> Chart:
    """Draw what every method reached on a data set, beside what was published of it."""
    rows = [row for row in ROWS if row.title in found]
    kinds: dict[str, list[Any]] = {
        "ours": [found[row.title][0].mean for row in rows],
        "ours, oracle": [None if (best := found[row.title][1]) is None else best.mean for row in rows],
    }
    if backbone is not None:
        told = [figure(name, row.published, column, backbone) if row.published else None for row in rows]
        for kind, tuned in (("published", False), ("published oracle", True)):
            kinds[kind] = [one.value if one and one.oracle is tuned else None for one in told]
    titles = [row.title for row in rows]
    series = [
        Series(kind, titles, [float("nan") if value is None else float(value) for value in values])
        for kind, values in kinds.items()
        if any(value is not None for value in values)
    ]
    where_from = column if backbone is None else f"{column}, CLIP {backbone}"
    title = f"Every method: {where_from}"
    return Chart(slug(name, where_from), title, "bars", "method", "top-1 accuracy (%)", series)


def _average_rows(name: str, backbone: str, averages: dict[str, list[Spread]], sets: int) -> list[list[Cell]]:
    """Average over the data sets where all of them are there; the paper's averages stand beside."""
    rows: list[list[Cell]] = []
    columns = [column for column in data()["tables"][name]["columns"] if "Average" in column]
    for column in columns:
        for row in ROWS:
            if not row.published:
                continue
            spreads = averages.get(row.title, [])
            spreads = spreads[1:] if column.startswith("OOD") else spreads
            whole = len(averages.get(row.title, [])) == sets
            ours: Any = None
            if whole:
                ours = Spread(tuple(sum(seed) / len(seed) for seed in zip(*(s.values for s in spreads), strict=True)))
            rows.append([column, row.title, _text(ours), None, None, *pair(name, row.published, column, backbone), ""])
    return rows


def _own_table(context: Context, name: str, pack: FeaturePack, found: Measured) -> Table:
    """Show a pack that is none of the paper's."""
    remark = f"{pack.clip_model}, aux {pack.aux_model or 'none'}, {pack.clip.shape[1]} views"
    rows = _rows(name, pack.name, None, found, remark, _reasons(context, pack))
    title = f"{pack.name}: not in the paper's table"
    return compact(f"{name}-{slug(pack.name)}", title, COLUMNS, rows, keep=3)


def _remark(context: Context, pack: FeaturePack, key: str) -> str:
    images = len(pack) if context.limit is None else min(context.limit, len(pack))
    told = [f"aux {pack.aux_model or 'none'}", f"{pack.clip.shape[1]} views"]
    whole = CATALOGUE[key].sizes["test"]
    if images != whole:
        told.append(f"{images} of {whole} images")
    return ", ".join(told)


def _how(key: str, backbone: str) -> str:
    out = f"{key}-{slug(backbone)}"
    return f"Make it: cosmic extract {key} --root DATA --clip {CLIPS[backbone]} --aux {AUX} --out {out}"


def _text(spread: Spread | None) -> Cell:
    return None if spread is None else str(spread)
