"""What a method's memory holds at the end: class graphs with their cliques, and t-SNE of classes and caches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from cosmic_tta.core.arrays import Array, Bools, Ints, unit
from cosmic_tta.evaluation.run_folder import SavedMemory, SavedRun
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, slug
from cosmic_tta.reporting.plotting.geometry import Points, spring_layout
from cosmic_tta.reporting.projection import MAX_ROWS, centre_rows, tsne
from cosmic_tta.reporting.run_report.selection import featured_run, first_run_per_method

MAX_NODES = 70
MAX_LABELLED_POINTS = 25  # more names would overlap
MAX_LABELLED_CLASSES = 40
MAX_HULLS = 10
MIN_CACHE_SIZE = 4  # images
SPACE_TITLES = {"css": "CSS, the CLIP space", "afv": "AFV, the auxiliary space"}


def graphs_section(runs: Sequence[SavedRun], suffix: str = "") -> ResultSet:
    """Return the class graphs and the t-SNE charts of the featured run."""
    run = featured_run(first_run_per_method(runs))
    with_graph = [memory for memory in run.memories if len(memory.sizes)]
    charts = [graph_chart(run, memory) for memory in with_graph]
    charts += [classes_chart(run, memory) for memory in with_graph]
    charts += [
        cache_chart(run.report.pack, run.class_names, memory)
        for memory in run.memories
        if len(memory.slots) >= MIN_CACHE_SIZE
    ]
    notes = [f"The memory of {run.report.title} after {run.report.n:,} images."] if charts else ()
    return ResultSet(slug("graphs", suffix), f"Classes, cliques and caches{suffix}", charts=charts, notes=notes)


def space_title(memory: SavedMemory) -> str:
    """Return the name of a feature space for readers."""
    return SPACE_TITLES.get(memory.name, memory.name)


def class_centres(memory: SavedMemory, classes: int) -> Array:
    """Return the mean of each class's cached samples at unit length, [K, D]; zero for a class without samples."""
    sums = np.zeros((classes, memory.slots.shape[1]), np.float32)
    np.add.at(sums, memory.classes, memory.slots)
    return unit(sums)


def graph_nodes(class_names: Sequence[str], text: Array, memory: SavedMemory) -> tuple[Array, list[str], int]:
    """Return the nodes of a space's class graph [n, D], their names, and how many of them, the first, are texts."""
    names, visual = list(class_names), class_centres(memory, len(class_names))
    if len(memory.nodes) and int(memory.nodes.max()) >= len(names):  # the graph has text nodes too
        return np.concatenate([unit(text), visual]), names + names, len(names)
    return visual, names, 0


def hyper_class_centres(nodes: Array, memory: SavedMemory) -> tuple[Array, list[Ints]]:
    """Return the unit centres of the cliques whose nodes all have features, and these cliques."""
    present = np.linalg.norm(nodes, axis=1) > 0
    cliques = [clique for clique in memory.cliques if present[clique].all()]
    centres = unit(np.stack([nodes[clique].mean(axis=0) for clique in cliques])) if cliques else nodes[:0]
    return centres, cliques


def graph_chart(run: SavedRun, memory: SavedMemory) -> Chart:
    """Return the class graph of a space: its nodes, its links, and outlines of its largest cliques."""
    _, names, texts = graph_nodes(run.class_names, run.text, memory)
    links = sorted({(int(a), int(b)) for clique in memory.cliques for a, b in combinations(sorted(clique.tolist()), 2)})
    degree = np.zeros(len(names), int)
    for a, b in links:
        degree[[a, b]] += 1
    linked = int((degree > 0).sum())
    shown = np.sort(np.argsort(-degree, kind="stable")[: min(MAX_NODES, linked)])
    position = {int(node): number for number, node in enumerate(shown)}
    shown_links = [(position[a], position[b]) for a, b in links if a in position and b in position]
    cliques = sorted((clique.tolist() for clique in memory.cliques if len(clique) > 2), key=len, reverse=True)
    groups = [[position[node] for node in clique if node in position] for clique in cliques[:MAX_HULLS]]
    points = spring_layout(len(shown), shown_links)
    series = []
    for name, chosen, marker, colour in (
        ("texts", shown < texts, "s", 1),
        ("image centres" if texts else "classes", shown >= texts, "o", 0),
    ):
        if chosen.any():
            node_names = [names[int(node)] for node in shown[chosen]]
            series.append(_points_series(name, points[chosen], node_names, marker, colour))
    return Chart(
        slug("graph", memory.name, run.report.pack),
        f"Class graph in {space_title(memory)}",
        "network",
        series=series,
        links=shown_links,
        groups=[group for group in groups if len(group) > 2],
        note=_graph_note(len(memory.sizes), len(groups), len(names) - linked, linked - len(shown)),
    )


def _points_series(
    name: str, points: Points, texts: Sequence[str], marker: str, colour: int, *, label_points: bool = False
) -> Series:
    x, y = points[:, 0].tolist(), points[:, 1].tolist()
    return Series(name, x, y, point_texts=texts, marker=marker, colour=colour, label_points=label_points)


def _graph_note(cliques: int, hulls: int, isolated: int, omitted: int) -> str:
    largest = f"the {hulls} largest with at least three nodes are outlined" if hulls else "none has three nodes"
    note = f"{cliques} maximal cliques; {largest}."
    if isolated + omitted:
        few = f", {omitted} with few links" if omitted else ""
        note += f" Nodes not shown: {isolated} without links{few}."
    return note


def classes_chart(run: SavedRun, memory: SavedMemory) -> Chart:
    """Return a t-SNE of texts, class centres and hyper-class centres of a space."""
    nodes, names, texts = graph_nodes(run.class_names, run.text, memory)
    present = np.linalg.norm(nodes, axis=1) > 0
    centred = np.concatenate([centre_rows(nodes[:texts]), _centre_present(nodes[texts:], present[texts:])])
    cliques = [clique for clique in memory.cliques if len(clique) > 1][: MAX_ROWS // 2]
    hyper = unit(np.stack([centred[clique].mean(axis=0) for clique in cliques])) if cliques else centred[:0]
    points = tsne(np.concatenate([centred[present], hyper]))
    row = np.cumsum(present) - 1
    series = []
    for name, low, high, marker, colour in (("texts", 0, texts, "s", 1), ("image centres", texts, len(nodes), "o", 0)):
        chosen = [node for node in range(low, high) if present[node]]
        if chosen:
            node_names = [names[node] for node in chosen]
            few = len(chosen) <= MAX_LABELLED_POINTS
            series.append(_points_series(name, points[row[chosen]], node_names, marker, colour, label_points=few))
    if len(hyper):
        members = [" + ".join(_member_names(clique, names, texts)) for clique in cliques]
        series.append(_points_series("hyper-classes", points[int(present.sum()) :], members, "D", 2))
    note = "A hyper-class lies at the mean of its members."
    if texts:
        note += " Texts and images are each centred on their own mean, because CLIP keeps the two apart."
    return Chart(
        slug("space", memory.name, run.report.pack),
        f"t-SNE of {space_title(memory)}: classes and hyper-classes",
        "points",
        series=series,
        hide_ticks=True,
        note=note,
    )


def _centre_present(rows: Array, present: Bools) -> Array:
    result = rows.copy()
    result[present] = centre_rows(rows[present])
    return result


def _member_names(clique: Ints, names: Sequence[str], texts: int) -> list[str]:
    return [f"{names[int(node)]}{' (text)' if int(node) < texts else ''}" for node in clique]


def cache_chart(pack: str, class_names: Sequence[str], memory: SavedMemory, name: str = "cache") -> Chart:
    """Return a t-SNE of the images in a cache, coloured by their pseudo-label."""
    chosen = np.arange(len(memory.slots))
    if len(chosen) > MAX_ROWS:
        chosen = np.linspace(0, len(chosen) - 1, MAX_ROWS).astype(int)
    points, classes = tsne(unit(memory.slots[chosen])), memory.classes[chosen]
    series = []
    for k in np.unique(classes):
        own = classes == k
        samples = memory.samples[chosen][own]
        texts = [f"{class_names[int(k)]}, image {int(sample) + 1} of the stream" for sample in samples]
        series.append(Series(class_names[int(k)], points[own, 0].tolist(), points[own, 1].tolist(), point_texts=texts))
    return Chart(
        slug(name, memory.name, pack),
        f"t-SNE of the cache of {space_title(memory)}",
        "points",
        series=series,
        hide_ticks=True,
        label_series=len(series) <= MAX_LABELLED_CLASSES,
        note="Each point is a cached image, coloured by its pseudo-label.",
    )
