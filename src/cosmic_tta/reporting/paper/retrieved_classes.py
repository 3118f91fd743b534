"""The classes that an image retrieves from the plain CLIP cache, the CSS graph and the AFV graph (Figure 9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.evaluation.evaluator import EvaluationRun
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.example_images import (
    ILLUSTRATION_NOTE,
    choose_examples,
    pack_with_images,
    top_classes,
    true_class,
)

BRANCHES = {"clip_cache": "cache", "css": "CSS", "afv": "AFV"}  # part of a prediction → name for readers
GALLERY_IMAGES, TABLE_ROWS = 12, 8
TABLE_CLASSES, GALLERY_CLASSES = 5, 3  # retrieved classes that are shown


def retrieved_classes(context: ExperimentContext) -> ResultSet:
    """Return the first classes that each branch retrieves, and how often the true class is among them."""
    packs = context.evaluated_packs
    tables = [_recall_table(context, pack) for pack in packs if pack.labels is not None]
    missing = [f"{pack.name}: no labels, so no recall." for pack in packs if pack.labels is None]
    shown, skipped = pack_with_images(context)
    charts = [_gallery(context.run("cosmic", shown), shown)]
    tables += [_example_table(context.run("cosmic", pack), pack) for pack in packs]
    notes = [
        ILLUSTRATION_NOTE,
        "The cache scores every class. The graphs score only the classes of their nearest hyper-classes. Classes are "
        "in the order of the branch's score.",
    ]
    return ResultSet(
        "retrieved-classes",
        "Classes retrieved by the cache, CSS and AFV (Figure 9)",
        tables,
        charts,
        notes,
        missing + skipped,
        context.settings,
    )


def _branch_scores(run: EvaluationRun) -> dict[str, Array]:
    return {title: run.parts[name] for name, title in BRANCHES.items() if name in run.parts}


def _recall_table(context: ExperimentContext, pack: FeaturePack) -> Table:
    """Return how often the true class is the first, or among the first three or five, of each branch."""
    run = context.run("cosmic", pack)
    labels = np.asarray(pack.labels)[run.order]
    rows: list[tuple[Cell, ...]] = []
    for name, scores in _branch_scores(run).items():
        own = scores[np.arange(len(labels)), labels]
        rank = (scores > own[:, None]).sum(axis=1)
        retrieved = own > 0
        recalls = [100 * float(((rank < count) & retrieved).mean()) for count in (1, 3, 5)]
        rows.append((name, float((scores > 0).sum(axis=1).mean()), *recalls))
    columns = ("branch", "classes retrieved", "true class first (%)", "among three (%)", "among five (%)")
    return Table(
        slug("retrieved-recall", pack.name),
        f"Recall of the true class: {pack.name}",
        columns,
        rows,
        f"{len(labels):,} images, seed {context.seeds[0]}.",
    )


def _retrieved_names(run: EvaluationRun, pack: FeaturePack, step: int) -> dict[str, list[str]]:
    return {
        name: [label for label, _ in top_classes(pack.class_names, scores[step], TABLE_CLASSES)]
        for name, scores in _branch_scores(run).items()
    }


def _gallery(run: EvaluationRun, pack: FeaturePack) -> Chart:
    images: list[tuple[Any, str]] = []
    for example in choose_examples(run, pack, GALLERY_IMAGES):
        if example.image is not None:
            retrieved = _retrieved_names(run, pack, example.step)
            lines = [f"{name}: {', '.join(labels[:GALLERY_CLASSES])}" for name, labels in retrieved.items()]
            heading = f"true class: {true_class(pack, example) or 'unlabelled'}"
            images.append((example.image, "\n".join([heading, *lines])))
    return Chart(
        slug("retrieved-classes", pack.name),
        f"Classes retrieved for example images: {pack.name}",
        "images",
        images=images,
        note=f"The first {GALLERY_CLASSES} classes that each branch retrieves.",
    )


def _example_table(run: EvaluationRun, pack: FeaturePack) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for example in choose_examples(run, pack, TABLE_ROWS):
        retrieved = _retrieved_names(run, pack, example.step)
        names = (", ".join(labels) or "none" for labels in retrieved.values())
        rows.append((example.step + 1, true_class(pack, example) or "–", *names))
    return Table(
        slug("retrieved-classes", pack.name),
        f"Classes retrieved, highest score first: {pack.name}",
        ("image", "true class", *_branch_scores(run)),
        rows,
        "The number is the position of the image in the stream.",
    )
