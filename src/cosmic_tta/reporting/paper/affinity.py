"""How well two encoders separate confusable classes: similarities of their images by class (Figure 2a)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints, as_float32, unit
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext

SHOWN_CLASSES = 6
MAX_IMAGES_PER_CLASS = 120
COLUMNS = ("encoder", "same class", "other class", "separation (%)", "nearest image of the same class (%)")


def affinity(context: ExperimentContext) -> ResultSet:
    """Compare the CLIP and the auxiliary space on the classes that zero-shot confuses most."""
    charts, tables, missing = [], [], []
    for pack in context.evaluated_packs:
        if pack.aux is None or pack.labels is None:
            lacks = "auxiliary features" if pack.aux is None else "labels"
            missing.append(f"{pack.name}: no {lacks}, so nothing to compare.")
            continue
        classes = confusable_classes(pack, SHOWN_CLASSES)
        images, labels = _images_of(pack, classes)
        names = [pack.class_names[k] for k in classes]
        rows: list[tuple[Cell, ...]] = []
        spaces = (("CLIP", pack.clip_model, pack.clip[images, 0]), ("auxiliary", pack.aux_model, pack.aux[images]))
        for kind, model, features in spaces:
            similarities = unit(as_float32(features)) @ unit(as_float32(features)).T
            charts.append(
                Chart(
                    slug("affinity", kind, pack.name),
                    f"{kind} similarity of confusable classes: {pack.name}",
                    "heatmap",
                    cells=class_similarities(similarities, labels, classes).tolist(),
                    row_names=names,
                    column_names=names,
                    z_title="mean cosine",
                    cell_format=".2f",
                    note=f"{model or kind}: mean cosine between the images of two classes, no image with itself.",
                )
            )
            rows.append((f"{kind}: {model}" if model else kind, *separation(similarities, labels)))
        note = (
            f"{', '.join(names)}: the classes that zero-shot confuses most, {len(images)} images. Separation is how "
            "often an image is more similar to one of its own class than to one of another; 50 % is chance."
        )
        title = f"Separation of confusable classes: {pack.name}"
        tables.append(Table(slug("affinity", pack.name), title, COLUMNS, rows, note))
    notes = ["Labels select and group the images. No method runs in this experiment."]
    return ResultSet(
        "affinity",
        "Visual affinity of CLIP and the auxiliary encoder (Figure 2a)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def confusable_classes(pack: FeaturePack, count: int) -> list[int]:
    """Return the classes that zero-shot confuses most: the worst pair, then those most confused with the chosen."""
    scores = as_float32(pack.clip[:, 0]) @ as_float32(pack.text).T
    predictions, labels, classes = scores.argmax(axis=1), np.asarray(pack.labels), len(pack.class_names)
    counts = np.bincount(labels * classes + predictions, minlength=classes**2).reshape(classes, classes).astype(float)
    confusion = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    confusion = confusion + confusion.T
    np.fill_diagonal(confusion, 0)
    chosen = [int(k) for k in np.unravel_index(int(confusion.argmax()), confusion.shape)] if classes > 1 else [0]
    while len(chosen) < min(count, classes):
        with_chosen = confusion[:, chosen].sum(axis=1)
        with_chosen[chosen] = -1
        chosen.append(int(with_chosen.argmax()))
    present = set(labels.tolist())
    return [k for k in dict.fromkeys(chosen) if k in present]


def _images_of(pack: FeaturePack, classes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the first images of some classes, and their labels."""
    labels = np.asarray(pack.labels)
    images = np.concatenate([np.flatnonzero(labels == k)[:MAX_IMAGES_PER_CLASS] for k in classes])
    return images, labels[images]


def class_similarities(similarities: Array, labels: Ints, classes: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean similarity between the images of two classes, without an image with itself."""
    cells = np.empty((len(classes), len(classes)))
    not_itself = ~np.eye(len(labels), dtype=bool)
    for row, a in enumerate(classes):
        for column, b in enumerate(classes):
            pairs = np.outer(labels == a, labels == b) & not_itself
            cells[row, column] = float(similarities[pairs].mean()) if pairs.any() else np.nan
    return cells


def separation(similarities: Array, labels: Ints) -> tuple[float, float, float, float]:
    """Return four measures of how far classes lie apart.

    Returns:
        Mean similarity within classes, mean similarity between classes, how often an image is more similar to one of
        its own class than to one of another, and 1-nearest-neighbour accuracy. The last two are in percent.
    """
    itself = np.eye(len(labels), dtype=bool)
    same_class = labels[:, None] == labels[None]
    same_class_pairs = same_class & ~itself
    more_similar = []
    for row, own, same in zip(similarities, same_class_pairs, same_class, strict=True):
        within, between = row[own], np.sort(row[~same])
        if len(within) and len(between):
            more_similar.append(float(np.searchsorted(between, within, side="left").mean()) / len(between))
    nearest = np.where(itself, -np.inf, similarities).argmax(axis=1)
    nearest_accuracy = float((labels[nearest] == labels).mean())
    return (
        float(similarities[same_class_pairs].mean()),
        float(similarities[~same_class].mean()),
        100 * float(np.mean(more_similar)),
        100 * nearest_accuracy,
    )
