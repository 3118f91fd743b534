"""What a method's memories look like in the end: the class graph with its cliques, and both spaces laid flat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from cosmic_tta.charts import Chart, Outcome, Series, slug
from cosmic_tta.drawing.shapes import spring_layout
from cosmic_tta.ops import Array, Ints, unit
from cosmic_tta.portraits.choice import featured, one_each
from cosmic_tta.projection import MOST_ROWS, centred, tsne
from cosmic_tta.runs import Memory, SavedRun

MOST_NODES = 70
MOST_NAMES = 25  # that can be read beside their points
MOST_HULLS = 10
NAMES = {"css": "CSS, the CLIP space", "afv": "AFV, the auxiliary space"}


def spaces(runs: Sequence[SavedRun], suffix: str = "") -> Outcome:
    """Return graphs and t-SNE of the run that is shown in detail."""
    run = featured(one_each(runs))
    graphs = [memory for memory in run.memories if len(memory.sizes)]
    charts = [graph_chart(run, memory) for memory in graphs] + [classes_chart(run, memory) for memory in graphs]
    charts += [cache_chart(run.report.pack, run.class_names, one) for one in run.memories if len(one.slots) > 3]
    notes = [f"What {run.report.title} held after {run.report.n:,} images."] if charts else ()
    return Outcome(slug("spaces", suffix), f"Classes, cliques and caches{suffix}", charts=charts, notes=notes)


def title_of(memory: Memory) -> str:
    """Name a space for people."""
    return NAMES.get(memory.name, memory.name)


def centres(memory: Memory, classes: int) -> Array:
    """Return the mean of each class's kept samples at unit length, [K, D]; zero without any."""
    sums = np.zeros((classes, memory.slots.shape[1]), np.float32)
    np.add.at(sums, memory.classes, memory.slots)
    return unit(sums)


def node_rows(class_names: Sequence[str], text: Array, memory: Memory) -> tuple[Array, list[str], int]:
    """Return the nodes of a space's graph, their names, and how many of them are texts."""
    names, visual = list(class_names), centres(memory, len(class_names))
    if len(memory.nodes) and int(memory.nodes.max()) >= len(names):  # texts take part
        return np.concatenate([unit(text), visual]), names + names, len(names)
    return visual, names, 0


def hyper_rows(rows: Array, memory: Memory) -> tuple[Array, list[Ints]]:
    """Return the centres of the cliques that have samples or texts, at unit length, and the cliques."""
    there = np.linalg.norm(rows, axis=1) > 0
    cliques = [clique for clique in memory.cliques if there[clique].all()]
    centre = unit(np.stack([rows[clique].mean(axis=0) for clique in cliques])) if cliques else rows[:0]
    return centre, cliques


def graph_chart(run: SavedRun, memory: Memory) -> Chart:
    """Draw the class graph of a space: its links, its nodes, its larger cliques as hulls."""
    _, names, texts = node_rows(run.class_names, run.text, memory)
    links = sorted({(int(a), int(b)) for clique in memory.cliques for a, b in combinations(sorted(clique.tolist()), 2)})
    degree = np.zeros(len(names), int)
    for a, b in links:
        degree[[a, b]] += 1
    linked = int((degree > 0).sum())
    kept = np.sort(np.argsort(-degree, kind="stable")[: min(MOST_NODES, linked)])
    place = {int(node): number for number, node in enumerate(kept)}
    shown = [(place[a], place[b]) for a, b in links if a in place and b in place]
    cliques = sorted((clique.tolist() for clique in memory.cliques if len(clique) > 2), key=len, reverse=True)
    groups = [[place[node] for node in clique if node in place] for clique in cliques[:MOST_HULLS]]
    at = spring_layout(len(kept), shown)
    series = []
    for name, chosen, mark, colour in (
        ("texts", kept < texts, "s", 1),
        ("image centres" if texts else "classes", kept >= texts, "o", 0),
    ):
        if chosen.any():
            words = [names[int(node)] for node in kept[chosen]]
            series.append(
                Series(name, at[chosen, 0].tolist(), at[chosen, 1].tolist(), words=words, mark=mark, colour=colour)
            )
    alone, left = len(names) - linked, linked - len(kept)
    note = f"{len(memory.sizes)} maximal cliques; " + (
        f"the {len(groups)} largest of three nodes or more are drawn as hulls." if groups else "none has three nodes."
    )
    note += f" Not shown: {alone} without a link{f', {left} of few links' if left else ''}." if alone + left else ""
    return Chart(
        slug("graph", memory.name, run.report.pack),
        f"Class graph in {title_of(memory)}",
        "network",
        series=series,
        links=shown,
        groups=[group for group in groups if len(group) > 2],
        note=note,
    )


def classes_chart(run: SavedRun, memory: Memory) -> Chart:
    """Lay texts, class centres and the centres of hyper-classes flat together."""
    rows, names, texts = node_rows(run.class_names, run.text, memory)
    there = np.linalg.norm(rows, axis=1) > 0
    flat = np.concatenate([centred(rows[:texts]), _centred_there(rows[texts:], there[texts:])])
    cliques = [clique for clique in memory.cliques if len(clique) > 1][: MOST_ROWS // 2]
    anchors = unit(np.stack([flat[clique].mean(axis=0) for clique in cliques])) if cliques else flat[:0]
    at = tsne(np.concatenate([flat[there], anchors]))
    place = np.cumsum(there) - 1
    series = []
    for name, low, high, mark, colour in (("texts", 0, texts, "s", 1), ("image centres", texts, len(rows), "o", 0)):
        chosen = [node for node in range(low, high) if there[node]]
        if chosen:
            points = at[place[chosen]]
            series.append(
                Series(
                    name,
                    points[:, 0].tolist(),
                    points[:, 1].tolist(),
                    words=[names[n] for n in chosen],
                    mark=mark,
                    colour=colour,
                    told=len(chosen) <= MOST_NAMES,
                )
            )
    if len(anchors):
        words = [" + ".join(_members(clique, names, texts)) for clique in cliques]
        points = at[int(there.sum()) :]
        series.append(
            Series("hyper-classes", points[:, 0].tolist(), points[:, 1].tolist(), words=words, mark="D", colour=2)
        )
    return Chart(
        slug("space", memory.name, run.report.pack),
        f"t-SNE of {title_of(memory)}: classes and hyper-classes",
        "points",
        series=series,
        bare=True,
        note="Hyper-classes lie at the mean of their members. Texts and images are each centred on their own mean, "
        "because CLIP keeps the two apart."
        if texts
        else "Hyper-classes lie at the mean of their members.",
    )


def _centred_there(rows: Array, there: Array) -> Array:
    result = rows.copy()
    result[there] = centred(rows[there])
    return result


def _members(clique: Ints, names: Sequence[str], texts: int) -> list[str]:
    return [f"{names[int(n)]}{' (text)' if int(n) < texts else ''}" for n in clique]


def cache_chart(pack: str, class_names: Sequence[str], memory: Memory, name: str = "cache") -> Chart:
    """Lay the kept samples of a space flat, coloured by the class under which they are kept."""
    chosen = np.arange(len(memory.slots))
    if len(chosen) > MOST_ROWS:
        chosen = np.linspace(0, len(chosen) - 1, MOST_ROWS).astype(int)
    at, classes = tsne(unit(memory.slots[chosen])), memory.classes[chosen]
    series = []
    for k in np.unique(classes):
        own = classes == k
        samples = memory.samples[chosen][own]
        words = [f"{class_names[int(k)]}, image {int(sample) + 1} of the stream" for sample in samples]
        series.append(Series(class_names[int(k)], at[own, 0].tolist(), at[own, 1].tolist(), words=words))
    return Chart(
        slug(name, memory.name, pack),
        f"t-SNE of the cache of {title_of(memory)}",
        "points",
        series=series,
        bare=True,
        named=len(series) <= 40,
        note="Each point is a kept image, coloured by its pseudo-label.",
    )
