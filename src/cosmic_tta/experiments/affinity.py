"""Which of two encoders tells confusable classes apart: the similarities of their images, class by class (Fig. 2a)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.charts import Cell, Chart, Outcome, Table, slug
from cosmic_tta.experiments.context import Context
from cosmic_tta.ops import Array, Ints, as_float32, unit
from cosmic_tta.packs import FeaturePack

SHOWN = 6  # classes
MOST_IMAGES = 120  # of each
COLUMNS = ("encoder", "same class", "other class", "apart", "nearest image of the same class, %")


def affinity(context: Context) -> Outcome:
    """Compare both spaces on the classes that zero-shot confuses most."""
    charts, tables, missing = [], [], []
    for pack in context.streams:
        if pack.aux is None or pack.labels is None:
            lacks = "auxiliary features" if pack.aux is None else "labels"
            missing.append(f"{pack.name}: it has no {lacks}, so there is nothing to compare.")
            continue
        chosen = confusable(pack, SHOWN)
        images, labels = _images(pack, chosen)
        rows: list[tuple[Cell, ...]] = []
        names = [pack.class_names[k] for k in chosen]
        spaces = (("CLIP", pack.clip_model, pack.clip[images, 0]), ("auxiliary", pack.aux_model, pack.aux[images]))
        for kind, model, features in spaces:
            similar = unit(as_float32(features)) @ unit(as_float32(features)).T
            cells = class_means(similar, labels, chosen)
            charts.append(
                Chart(
                    slug("affinity", kind, pack.name),
                    f"{kind} similarity of confusable classes: {pack.name}",
                    "heat",
                    cells=cells.tolist(),
                    row_names=names,
                    column_names=names,
                    z_title="mean cosine",
                    cell_format=".2f",
                    note=f"{model or kind}: mean cosine between images of two classes, an image with itself left out.",
                )
            )
            rows.append((f"{kind}: {model}" if model else kind, *separation(similar, labels)))
        note = (
            f"{', '.join(names)}: the classes that zero-shot confuses most, {len(images)} images. `apart` is how often "
            "an image is nearer to one of its own class than to one of another, in percent: 50 is chance."
        )
        tables.append(
            Table(slug("affinity", pack.name), f"How far classes lie apart: {pack.name}", COLUMNS, rows, note)
        )
    notes = ["Labels choose and group the images; no method is run on them."]
    return Outcome(
        "affinity",
        "Visual affinity, CLIP against the auxiliary encoder (Figure 2a)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def confusable(pack: FeaturePack, count: int) -> list[int]:
    """Choose the classes that zero-shot confuses most: the worst pair, then whatever is most confused with those."""
    scores = as_float32(pack.clip[:, 0]) @ as_float32(pack.text).T
    answers, labels, classes = scores.argmax(axis=1), np.asarray(pack.labels), len(pack.class_names)
    counts = np.bincount(labels * classes + answers, minlength=classes**2).reshape(classes, classes).astype(float)
    mixed = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    mixed = mixed + mixed.T
    np.fill_diagonal(mixed, 0)
    chosen = [int(k) for k in np.unravel_index(int(mixed.argmax()), mixed.shape)] if classes > 1 else [0]
    while len(chosen) < min(count, classes):
        near = mixed[:, chosen].sum(axis=1)
        near[chosen] = -1
        chosen.append(int(near.argmax()))
    there = set(labels.tolist())
    return [k for k in dict.fromkeys(chosen) if k in there]


def _images(pack: FeaturePack, chosen: Sequence[int]) -> tuple[Ints, Ints]:
    labels = np.asarray(pack.labels)
    images = np.concatenate([np.flatnonzero(labels == k)[:MOST_IMAGES] for k in chosen])
    return images, labels[images]


def class_means(similar: Array, labels: Ints, chosen: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean similarity of the images of two classes, [classes, classes], none with itself."""
    cells = np.empty((len(chosen), len(chosen)))
    other = ~np.eye(len(labels), dtype=bool)
    for row, a in enumerate(chosen):
        for column, b in enumerate(chosen):
            pairs = np.outer(labels == a, labels == b) & other
            cells[row, column] = float(similar[pairs].mean()) if pairs.any() else np.nan
    return cells


def separation(similar: Array, labels: Ints) -> tuple[float, float, float, float]:
    """Return mean similarity within and between classes, how often within is nearer, and 1-nearest-neighbour accuracy.

    The last two are in percent.
    """
    same = labels[:, None] == labels[None]
    itself = np.eye(len(labels), dtype=bool)
    inside, between = similar[same & ~itself], similar[~same]
    nearer = []
    for row, mine, alike in zip(similar, same & ~itself, same, strict=True):
        own, foreign = row[mine], np.sort(row[~alike])
        if len(own) and len(foreign):
            nearer.append(float(np.searchsorted(foreign, own, side="left").mean()) / len(foreign))
    nearest = np.where(itself, -np.inf, similar).argmax(axis=1)
    found = float((labels[nearest] == labels).mean())
    return float(inside.mean()), float(between.mean()), 100 * float(np.mean(nearer)), 100 * found
