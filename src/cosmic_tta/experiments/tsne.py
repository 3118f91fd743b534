"""What a query meets, laid flat: texts, hyper-classes of both spaces, and the images that both caches keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.charts import Cell, Chart, Outcome, Series, Table, slug
from cosmic_tta.drawing.needs import require
from cosmic_tta.evaluate import evaluate
from cosmic_tta.experiments.context import Context
from cosmic_tta.methods import make_method
from cosmic_tta.ops import Array, Bools, Ints, as_float32, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.portraits.spaces import cache_chart, hyper_rows, node_rows
from cosmic_tta.projection import tsne
from cosmic_tta.runs import Memory, memories

FIRST = 100  # images from which the query is taken
STEPS, CAPACITY = 1000, 50  # of the caches
TITLES = {"css": "CSS hyper-class centres", "afv": "AFV hyper-class centres"}
CACHES = {"css": "CLIP cache", "afv": "auxiliary cache"}


@dataclass(frozen=True, eq=False)
class Query:
    """An image among the first hundred, and what COSMIC held when it came."""

    step: int
    index: int  # in the pack
    target: int  # its true class
    zero_shot: int
    answer: int
    memories: tuple[Memory, ...]


def classes(context: Context) -> Outcome:
    """Show a query from the cold start among texts, CSS hyper-classes and AFV hyper-classes (Fig. 7)."""
    require("sklearn")
    charts, tables, missing = [], [], []
    for pack in context.streams:
        if pack.labels is None:
            missing.append(f"{pack.name}: it has no labels, so the target is not known.")
            continue
        query = find_query(context, pack)
        drawn = [_texts(pack, query), *(_hyper(pack, query, memory) for memory in query.memories if len(memory.sizes))]
        charts += [chart for chart, _ in drawn]
        rows = [row for _, row in drawn]
        columns = (
            "queried among",
            "centres",
            "with the target",
            "rank of the first with the target",
            "ranked before it, %",
        )
        note = (
            f"Image {query.step + 1} of the stream, truly {pack.class_names[query.target]}; zero-shot says "
            f"{pack.class_names[query.zero_shot]}, COSMIC {pack.class_names[query.answer]}. Rank 1 is the nearest."
        )
        tables.append(
            Table(slug("tsne-classes", pack.name), f"How near the target is: {pack.name}", columns, rows, note)
        )
    notes = [
        f"The query is taken from the first {FIRST} images: one that zero-shot gets wrong and COSMIC right, if there "
        "is any. Ranks are by cosine in the space itself; t-SNE only draws it. Texts and images are each centred on "
        "their own mean."
    ]
    return Outcome(
        "tsne-classes",
        "A query among classes and hyper-classes (Figure 7)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def find_query(context: Context, pack: FeaturePack) -> Query:
    """Find the query, and step again up to it for the state of that moment."""
    method, limit = make_method("cosmic"), min(FIRST, context.limit or FIRST)
    labels = np.asarray(pack.labels)
    said = []
    for step in evaluate(method, pack, seed=context.seeds[0], limit=limit):
        said.append((step.index, int(step.prediction.parts["zero_shot"].argmax()), step.prediction.label))
        context.watch(step.done, step.total, f"cosmic on {pack.name}")
    helped = [place for place, (index, before, after) in enumerate(said) if after == labels[index] != before]
    right = [place for place, (index, _, after) in enumerate(said) if after == labels[index]]
    chosen = (helped or right or [len(said) - 1])[-1]
    for step in evaluate(method, pack, seed=context.seeds[0], limit=chosen + 1):
        state = step.state
    index, before, after = said[chosen]
    return Query(chosen, index, int(labels[index]), before, after, tuple(memories(state)))


def _texts(pack: FeaturePack, query: Query) -> tuple[Chart, tuple[Cell, ...]]:
    feature, rows = unit(as_float32(pack.clip[query.index, :1])), unit(as_float32(pack.text))
    holds = np.arange(len(rows)) == query.target
    images = query.memories[0].slots.mean(axis=0) if query.memories else 0 * feature[0]
    moved = unit(rows - rows.mean(axis=0)) if len(rows) > 2 else rows
    return _chart(
        pack,
        "texts",
        "text class centres",
        unit(feature - images),
        moved,
        holds,
        list(pack.class_names),
        feature @ rows.T,
    )


def _hyper(pack: FeaturePack, query: Query, memory: Memory) -> tuple[Chart, tuple[Cell, ...]]:
    rows, names, texts = node_rows(pack.class_names, as_float32(pack.text), memory)
    centre, cliques = hyper_rows(rows, memory)
    classes_of = [set((clique % len(pack.class_names)).tolist()) for clique in cliques]
    holds = np.array([query.target in members for members in classes_of], bool)
    words = [" + ".join(sorted({names[int(node)] for node in clique})) for clique in cliques]
    source = pack.clip[query.index, 0] if texts or pack.aux is None else pack.aux[query.index]
    feature = unit(as_float32(source)[None])
    if not texts:
        return _chart(
            pack, memory.name, TITLES.get(memory.name, memory.name), feature, centre, holds, words, feature @ centre.T
        )
    moved = rows.copy()
    there = np.linalg.norm(rows, axis=1) > 0
    images = rows[texts:][there[texts:]].mean(axis=0)
    moved[:texts] -= rows[:texts].mean(axis=0)
    moved[texts:][there[texts:]] -= images
    flat = unit(np.stack([moved[clique].mean(axis=0) for clique in cliques]))
    title = TITLES.get(memory.name, memory.name)
    return _chart(pack, memory.name, title, unit(feature - images), flat, holds, words, feature @ centre.T)


def _chart(
    pack: FeaturePack, name: str, title: str, feature: Array, rows: Array, holds: Bools, words: list[str], near: Array
) -> tuple[Chart, tuple[Cell, ...]]:
    at = tsne(np.concatenate([rows, feature]))
    few = len(rows) <= 40
    series = [
        Series(
            "others",
            at[:-1][~holds, 0].tolist(),
            at[:-1][~holds, 1].tolist(),
            words=[w for w, h in zip(words, holds, strict=True) if not h],
            colour=-1,
            told=few and name == "texts",
        ),
        Series(
            "with the target",
            at[:-1][holds, 0].tolist(),
            at[:-1][holds, 1].tolist(),
            words=[w for w, h in zip(words, holds, strict=True) if h],
            colour=2,
            mark="D",
            told=name == "texts",
        ),
        Series("query", [float(at[-1, 0])], [float(at[-1, 1])], words=["query"], colour=1, mark="*"),
    ]
    ranks = np.argsort(np.argsort(-near[0], kind="stable"))
    first = int(ranks[holds].min()) if holds.any() else None
    row: tuple[Cell, ...] = (
        title,
        len(rows),
        int(holds.sum()),
        None if first is None else first + 1,
        None if first is None else 100 * first / len(rows),
    )
    note = f"{int(holds.sum())} of {len(rows)} have the target in them."
    return Chart(
        slug("tsne-classes", name, pack.name),
        f"A query among {title}: {pack.name}",
        "points",
        series=[one for one in series if len(one.x)],
        bare=True,
        note=note,
    ), row


def caches(context: Context) -> Outcome:
    """Show both caches, fifty slots a class, after a thousand steps, coloured by class (Fig. 8)."""
    require("sklearn")
    charts, tables, missing = [], [], []
    for pack in context.streams:
        method, state, order = make_method("cosmic", shots=CAPACITY, aux_shots=CAPACITY), None, []
        for step in evaluate(method, pack, seed=context.seeds[0], limit=min(STEPS, context.limit or STEPS)):
            state = step.state
            order.append(step.index)
            context.watch(step.done, step.total, f"cosmic on {pack.name}")
        found = list(memories(state))
        if len(found) < 2:
            missing.append(f"{pack.name}: it has no auxiliary features, so there is one cache only.")
        truth = None if pack.labels is None else np.asarray(pack.labels)[order]
        rows: list[tuple[Cell, ...]] = []
        for memory in found:
            charts.append(cache_chart(pack.name, pack.class_names, memory, "tsne-caches"))
            rows.append((CACHES.get(memory.name, memory.name), len(memory.slots), *_order_of(memory, truth)))
        columns = ("cache", "images", "silhouette by pseudo-label", "silhouette by label", "rightly labelled, %")
        note = (
            f"{CAPACITY} slots a class, {len(order):,} steps. A silhouette goes from -1 to 1: high where classes lie "
            "in clusters of their own."
        )
        tables.append(Table(slug("tsne-caches", pack.name), f"Order in the caches: {pack.name}", columns, rows, note))
    notes = ["Colours are the classes under which images are kept: pseudo-labels."]
    return Outcome("tsne-caches", "What both caches keep (Figure 8)", tables, charts, notes, missing, context.settings)


def _order_of(memory: Memory, truth: Ints | None) -> tuple[Cell, ...]:
    own = silhouette(memory.slots, memory.classes)
    if truth is None:
        return own, None, None
    labels = truth[memory.samples]
    return own, silhouette(memory.slots, labels), 100 * float((labels == memory.classes).mean())


def silhouette(rows: Array, labels: Ints) -> float | None:
    """Return the mean silhouette by cosine; None where all rows or none share a class."""
    from sklearn.metrics import silhouette_score

    kinds = len(np.unique(labels))
    return float(silhouette_score(rows, labels, metric="cosine")) if 1 < kinds < len(rows) else None
