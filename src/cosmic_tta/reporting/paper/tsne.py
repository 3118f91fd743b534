"""t-SNE of a query among texts and hyper-classes (Figure 7), and of the images in both caches (Figure 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, as_float32, unit
from cosmic_tta.evaluation.evaluator import evaluate
from cosmic_tta.evaluation.run_folder import SavedMemory, saved_memories
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import make_method
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.plotting.requirements import require
from cosmic_tta.reporting.projection import centre_rows, tsne
from cosmic_tta.reporting.run_report.graphs import cache_chart, graph_nodes, hyper_class_centres

MAX_QUERY_STEP = 100  # the query is one of the first images
CACHE_STEPS, CACHE_SLOTS = 1000, 50  # images of the stream, slots per class
MAX_LABELLED_TEXTS = 40
CENTRE_TITLES = {"css": "CSS hyper-class centres", "afv": "AFV hyper-class centres"}
CACHE_TITLES = {"css": "CLIP cache", "afv": "auxiliary cache"}
QUERY_COLUMNS = (
    "queried among",
    "centres",
    "with the target",
    "rank of the first with the target",
    "ranked before it (%)",
)
CACHE_COLUMNS = ("cache", "images", "silhouette by pseudo-label", "silhouette by label", "correct pseudo-labels (%)")


@dataclass(frozen=True, eq=False)
class TsneQuery:
    """One of the first images of a stream, and the memories of COSMIC after it."""

    step: int
    index: int  # in the pack
    target: int  # its true class
    zero_shot: int  # predicted class
    adapted: int  # predicted class
    memories: tuple[SavedMemory, ...]


@dataclass(frozen=True, eq=False)
class QueriedCentres:
    """Centres of classes or hyper-classes that a query is compared with."""

    space: str
    title: str
    centres: Array  # [n, D] as drawn
    query: Array  # [1, D] as drawn
    similarities: Array  # [n] of the query to each centre, in the feature space itself
    with_target: Bools  # [n] whether the centre's classes include the target
    names: list[str]


def tsne_classes(context: ExperimentContext) -> ResultSet:
    """Return t-SNE of an early query among texts, CSS hyper-classes and AFV hyper-classes (Figure 7)."""
    require("sklearn")
    charts, tables, missing = [], [], []
    for pack in context.evaluated_packs:
        if pack.labels is None:
            missing.append(f"{pack.name}: no labels, so the target is not known.")
            continue
        query = find_query(context, pack)
        with_graph = [memory for memory in query.memories if len(memory.sizes)]
        spaces = [_text_centres(pack, query), *(_hyper_centres(pack, query, memory) for memory in with_graph)]
        charts += [_query_chart(pack, space) for space in spaces]
        note = (
            f"The query is image {query.step + 1} of the stream, true class {pack.class_names[query.target]}. "
            f"Zero-shot predicts {pack.class_names[query.zero_shot]}, COSMIC {pack.class_names[query.adapted]}. Rank 1 "
            "is the nearest."
        )
        title = f"Rank of the target: {pack.name}"
        rows = [_rank_row(space) for space in spaces]
        tables.append(Table(slug("tsne-classes", pack.name), title, QUERY_COLUMNS, rows, note))
    notes = [
        f"The query is one of the first {MAX_QUERY_STEP} images, if possible one that zero-shot gets wrong and COSMIC "
        "right. Ranks are by cosine in the feature space itself; t-SNE only draws it. Texts and images are each "
        "centred on their own mean."
    ]
    return ResultSet(
        "tsne-classes",
        "A query among classes and hyper-classes (Figure 7)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def find_query(context: ExperimentContext, pack: FeaturePack) -> TsneQuery:
    """Choose the query, and run COSMIC again up to it for the memories at that step."""
    method, limit = make_method("cosmic"), min(MAX_QUERY_STEP, context.limit or MAX_QUERY_STEP)
    labels = np.asarray(pack.labels)
    predictions = []
    for step in evaluate(method, pack, seed=context.seeds[0], limit=limit):
        predictions.append((step.index, int(step.prediction.parts["zero_shot"].argmax()), step.prediction.label))
        context.on_progress(step.done, step.total, f"cosmic on {pack.name}")
    corrected = [step for step, (index, before, after) in enumerate(predictions) if after == labels[index] != before]
    correct = [step for step, (index, _, after) in enumerate(predictions) if after == labels[index]]
    chosen = (corrected or correct or [len(predictions) - 1])[-1]
    for progress in evaluate(method, pack, seed=context.seeds[0], limit=chosen + 1):
        state = progress.state
    index, before, after = predictions[chosen]
    return TsneQuery(chosen, index, int(labels[index]), before, after, tuple(saved_memories(method, state)))


def _text_centres(pack: FeaturePack, query: TsneQuery) -> QueriedCentres:
    feature, texts = unit(as_float32(pack.clip[query.index, :1])), unit(as_float32(pack.text))
    image_mean = query.memories[0].slots.mean(axis=0) if query.memories else 0 * feature[0]
    return QueriedCentres(
        "texts",
        "text class centres",
        centre_rows(texts),
        unit(feature - image_mean),
        (feature @ texts.T)[0],
        np.arange(len(texts)) == query.target,
        list(pack.class_names),
    )


def _hyper_centres(pack: FeaturePack, query: TsneQuery, memory: SavedMemory) -> QueriedCentres:
    nodes, names, texts = graph_nodes(pack.class_names, as_float32(pack.text), memory)
    centres, cliques = hyper_class_centres(nodes, memory)
    members = [set((clique % len(pack.class_names)).tolist()) for clique in cliques]
    source = pack.clip[query.index, 0] if texts or pack.aux is None else pack.aux[query.index]
    feature = unit(as_float32(source)[None])
    drawn_centres, drawn_feature = centres, feature
    if texts:
        centred = nodes.copy()
        present = np.linalg.norm(nodes, axis=1) > 0
        image_mean = nodes[texts:][present[texts:]].mean(axis=0)
        centred[:texts] -= nodes[:texts].mean(axis=0)
        centred[texts:][present[texts:]] -= image_mean
        drawn_centres = unit(np.stack([centred[clique].mean(axis=0) for clique in cliques]))
        drawn_feature = unit(feature - image_mean)
    return QueriedCentres(
        memory.name,
        CENTRE_TITLES.get(memory.name, memory.name),
        drawn_centres,
        drawn_feature,
        (feature @ centres.T)[0],
        np.array([query.target in classes for classes in members], bool),
        [" + ".join(sorted({names[int(node)] for node in clique})) for clique in cliques],
    )


def _query_chart(pack: FeaturePack, space: QueriedCentres) -> Chart:
    points = tsne(np.concatenate([space.centres, space.query]))
    centres, query, is_text = points[:-1], points[-1], space.space == "texts"

    def series(name: str, chosen: Bools, colour: int, marker: str, label_points: bool) -> Series:
        x, y = centres[chosen, 0].tolist(), centres[chosen, 1].tolist()
        texts = [text for text, shown in zip(space.names, chosen, strict=True) if shown]
        return Series(name, x, y, point_texts=texts, marker=marker, colour=colour, label_points=label_points)

    few = len(space.centres) <= MAX_LABELLED_TEXTS
    all_series = [
        series("others", ~space.with_target, -1, "o", few and is_text),
        series("with the target", space.with_target, 2, "D", is_text),
        Series("query", [float(query[0])], [float(query[1])], point_texts=["query"], colour=1, marker="*"),
    ]
    return Chart(
        slug("tsne-classes", space.space, pack.name),
        f"A query among {space.title}: {pack.name}",
        "points",
        series=[one for one in all_series if len(one.x)],
        hide_ticks=True,
        note=f"{int(space.with_target.sum())} of {len(space.centres)} centres include the target class.",
    )


def _rank_row(space: QueriedCentres) -> tuple[Cell, ...]:
    """Return the cells about the first centre with the target, by similarity to the query."""
    ranks = np.argsort(np.argsort(-space.similarities, kind="stable"))
    count, total = int(space.with_target.sum()), len(space.centres)
    if not count:
        return space.title, total, count, None, None
    first = int(ranks[space.with_target].min())
    return space.title, total, count, first + 1, 100 * first / total


def tsne_caches(context: ExperimentContext) -> ResultSet:
    """Return t-SNE of both caches, fifty slots per class, after a thousand steps (Figure 8)."""
    require("sklearn")
    charts, tables, missing = [], [], []
    for pack in context.evaluated_packs:
        method, state, order = make_method("cosmic", shots=CACHE_SLOTS, aux_shots=CACHE_SLOTS), None, []
        limit = min(CACHE_STEPS, context.limit or CACHE_STEPS)
        for step in evaluate(method, pack, seed=context.seeds[0], limit=limit):
            state = step.state
            order.append(step.index)
            context.on_progress(step.done, step.total, f"cosmic on {pack.name}")
        caches = [] if state is None else saved_memories(method, state)
        if len(caches) < 2:
            missing.append(f"{pack.name}: no auxiliary features, so only one cache.")
        labels = None if pack.labels is None else np.asarray(pack.labels)[order]
        rows: list[tuple[Cell, ...]] = []
        for memory in caches:
            charts.append(cache_chart(pack.name, pack.class_names, memory, "tsne-caches"))
            title = CACHE_TITLES.get(memory.name, memory.name)
            rows.append((title, len(memory.slots), *_cluster_quality(memory, labels)))
        note = (
            f"{CACHE_SLOTS} slots per class, {len(order):,} steps. The silhouette is from -1 to 1; it is high if each "
            "class is a cluster of its own."
        )
        title = f"Class structure of the caches: {pack.name}"
        tables.append(Table(slug("tsne-caches", pack.name), title, CACHE_COLUMNS, rows, note))
    notes = ["Colours are pseudo-labels: the classes under which the images are cached."]
    return ResultSet(
        "tsne-caches", "Images in both caches (Figure 8)", tables, charts, notes, missing, context.settings
    )


def _cluster_quality(memory: SavedMemory, labels: Ints | None) -> tuple[Cell, Cell, Cell]:
    """Return the silhouettes by pseudo-label and by label, and the percentage of correct pseudo-labels."""
    by_pseudo_label = silhouette(memory.slots, memory.classes)
    if labels is None:
        return by_pseudo_label, None, None
    own = labels[memory.samples]
    return by_pseudo_label, silhouette(memory.slots, own), 100 * float((own == memory.classes).mean())


def silhouette(rows: Array, labels: Ints) -> float | None:
    """Return the mean silhouette by cosine; None if all rows, or no two rows, share a class."""
    from sklearn.metrics import silhouette_score

    kinds = len(np.unique(labels))
    return float(silhouette_score(rows, labels, metric="cosine")) if 1 < kinds < len(rows) else None
