"""Which classes an image finds: in the plain CLIP cache, in the CSS graph, in the AFV graph (Fig. 9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosmic_tta.charts import Cell, Chart, Outcome, Table, slug
from cosmic_tta.evaluate import Run
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.samples import chosen, top, with_pictures
from cosmic_tta.ops import Array
from cosmic_tta.packs import FeaturePack

BRANCHES = {"clip_cache": "cache", "css": "CSS", "afv": "AFV"}
FOUND = 5
MOST_WORDS = 48  # letters of a card's line


def queried(context: Context) -> Outcome:
    """Show the first classes that each branch finds for some images, and how often the true one is among them."""
    tables = [_recall(context, pack) for pack in context.streams if pack.labels is not None]
    missing = [
        f"{pack.name}: it has no labels, so hits are not counted." for pack in context.streams if pack.labels is None
    ]
    pack, absent = with_pictures(context)
    charts = [_gallery(context.run("cosmic", pack), pack)]
    tables += [_samples(context.run("cosmic", other), other) for other in context.streams]
    notes = [
        "Images were chosen by label, those that adaptation put right first: they illustrate, and prove nothing.",
        "The cache answers for every class; the graphs only for those that their nearest hyper-classes let in. Order "
        "is by the branch's own score.",
    ]
    return Outcome(
        "queried",
        "Classes found by the cache, CSS and AFV (Figure 9)",
        tables,
        charts,
        notes,
        missing + absent,
        context.settings,
    )


def _branches(run: Run) -> dict[str, Array]:
    return {told: run.parts[name] for name, told in BRANCHES.items() if name in run.parts}


def _recall(context: Context, pack: FeaturePack) -> Table:
    run = context.run("cosmic", pack)
    labels = np.asarray(pack.labels)[run.order]
    rows: list[tuple[Cell, ...]] = []
    for name, scores in _branches(run).items():
        own = scores[np.arange(len(labels)), labels]
        rank = (scores > own[:, None]).sum(axis=1)
        inside = own > 0
        first = [100 * float(((rank < count) & inside).mean()) for count in (1, 3, 5)]
        rows.append((name, float((scores > 0).sum(axis=1).mean()), *first))
    columns = ("queried", "classes let in", "true class first, %", "among three, %", "among five, %")
    return Table(
        slug("queried-hits", pack.name),
        f"How often the true class is found: {pack.name}",
        columns,
        rows,
        f"{len(labels):,} images, seed {context.seeds[0]}.",
    )


def _found(run: Run, pack: FeaturePack, step: int) -> dict[str, list[str]]:
    return {
        name: [label for label, _ in top(pack.class_names, scores[step], FOUND)]
        for name, scores in _branches(run).items()
    }


def _gallery(run: Run, pack: FeaturePack) -> Chart:
    pictures: list[tuple[Any, str]] = []
    for one in chosen(run, pack, 12):
        if one.picture is not None:
            truth = "unlabelled" if pack.labels is None else pack.class_names[int(np.asarray(pack.labels)[one.index])]
            lines = [f"{name}: {', '.join(labels[:3])}" for name, labels in _found(run, pack, one.step).items()]
            pictures.append((one.picture, "\n".join([f"truly {truth}", *lines])))
    note = "The first three classes that each branch finds."
    return Chart(
        slug("queried", pack.name),
        f"Classes found for some images: {pack.name}",
        "pictures",
        pictures=pictures,
        note=note,
    )


def _samples(run: Run, pack: FeaturePack) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in chosen(run, pack, 8):
        truth = "–" if pack.labels is None else pack.class_names[int(np.asarray(pack.labels)[one.index])]
        rows.append(
            (one.step + 1, truth, *(", ".join(labels) or "none" for labels in _found(run, pack, one.step).values()))
        )
    columns = ("image", "true class", *_branches(run))
    return Table(
        slug("queried", pack.name),
        f"Classes found, the nearest first: {pack.name}",
        columns,
        rows,
        "The number is the image's place in the stream.",
    )
