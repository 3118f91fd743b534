"""Gaussian clusters and cliques of the same images: how many classes a cluster joins (Figure 2b)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Ints, unit
from cosmic_tta.evaluation.evaluator import evaluate
from cosmic_tta.evaluation.run_folder import SavedMemory, saved_memories
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import make_method
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, Table, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.plotting.geometry import rounded_hull
from cosmic_tta.reporting.plotting.requirements import require
from cosmic_tta.reporting.projection import tsne

COLUMNS = ("clusters", "number", "images per cluster", "classes per cluster", "with several classes (%)")
PRINCIPAL_COMPONENTS = 16  # that a Gaussian is fitted in, because there are few images
ELLIPSE_DEVIATIONS = 2.0
ELLIPSE_CORNERS = 48
HULL_MARGIN = 0.045
MAX_HULLS = 12
MAX_LABELLED_CLASSES = 40
MIN_IMAGES = 8
SHOTS = 16  # slots per class


def clusters(context: ExperimentContext) -> ResultSet:
    """Cluster the images in COSMIC's cache, by a mixture of Gaussians and by the cliques of its class graph."""
    require("sklearn", "matplotlib")
    charts, tables, missing = [], [], []
    for pack in context.evaluated_packs:
        memory = cached_images(context, pack)
        if memory is None or len(memory.slots) < MIN_IMAGES:
            missing.append(f"{pack.name}: too few images to cluster.")
            continue
        pack_charts, table = _compare(pack, memory)
        charts += pack_charts
        tables.append(table)
    notes = [
        "Both cluster the images in COSMIC's auxiliary cache, or in its CLIP cache if there is no auxiliary one. "
        "Colours are pseudo-labels: the classes under which the images are cached."
    ]
    return ResultSet(
        "clusters",
        "Feature clusters: cliques and Gaussians (Figure 2b)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def cached_images(context: ExperimentContext, pack: FeaturePack) -> SavedMemory | None:
    """Run COSMIC over a pack and return the memory of its last feature space at the end."""
    method, state = make_method("cosmic", shots=SHOTS, aux_shots=SHOTS), None
    for step in evaluate(method, pack, seed=context.seeds[0], limit=context.limit):
        state = step.state
        context.on_progress(step.done, step.total, f"cosmic on {pack.name}")
    spaces = [] if state is None else saved_memories(method, state)
    return spaces[-1] if spaces else None


def _compare(pack: FeaturePack, memory: SavedMemory) -> tuple[list[Chart], Table]:
    classes, present = len(pack.class_names), np.unique(memory.classes)
    points = tsne(unit(memory.slots))
    gaussian = gaussian_clusters(memory.slots, len(present))
    ellipses = [ellipse(points[gaussian == k]) for k in np.unique(gaussian) if (gaussian == k).sum() > 2]
    cliques = sorted(
        {tuple(np.unique(clique % classes).tolist()) for clique in memory.cliques},
        key=lambda clique: (-len(clique), clique),
    )
    centres = np.full((classes, 2), np.nan)
    for k in present:
        centres[k] = points[memory.classes == k].mean(axis=0)
    several = [clique for clique in cliques if len(clique) > 1 and np.isfinite(centres[list(clique)]).all()]
    hulls = [rounded_hull(centres[list(clique)], HULL_MARGIN) for clique in several[:MAX_HULLS]]
    series = [
        Series(
            pack.class_names[int(k)], points[memory.classes == k, 0].tolist(), points[memory.classes == k, 1].tolist()
        )
        for k in present
    ]
    gaussian_note = (
        f"A mixture of {len(np.unique(gaussian))} Gaussians. An ellipse is {ELLIPSE_DEVIATIONS:g} standard deviations "
        "of its images in this t-SNE."
    )
    clique_note = (
        f"Each hull joins the centres of the classes in one clique. Shown are the {len(hulls)} largest of "
        f"{len(several)} cliques with several classes."
    )
    charts = [
        _chart(
            f"Gaussian clusters: {pack.name}", slug("clusters-gaussian", pack.name), series, ellipses, gaussian_note
        ),
        _chart(f"Clique clusters: {pack.name}", slug("clusters-cliques", pack.name), series, hulls, clique_note),
    ]
    images = {
        "Gaussian": [np.flatnonzero(gaussian == k) for k in np.unique(gaussian)],
        "clique": [np.flatnonzero(np.isin(memory.classes, clique)) for clique in cliques],
    }
    rows = [(name, *_describe(groups, memory.classes)) for name, groups in images.items()]
    note = f"{len(memory.slots)} cached images of {len(series)} classes. A clique holds the images of its classes."
    return charts, Table(slug("clusters", pack.name), f"Content of the clusters: {pack.name}", COLUMNS, rows, note)


def _chart(
    title: str, name: str, series: Sequence[Series], outlines: Sequence[NDArray[np.float64]], note: str
) -> Chart:
    corners = [[(float(x), float(y)) for x, y in outline] for outline in outlines]
    few = len(series) <= MAX_LABELLED_CLASSES
    return Chart(name, title, "points", series=series, hide_ticks=True, label_series=few, outlines=corners, note=note)


def gaussian_clusters(rows: Array, count: int) -> Ints:
    """Assign rows to a mixture of Gaussians with diagonal covariances, fitted in the first principal components."""
    from sklearn.mixture import GaussianMixture

    centred = np.asarray(rows, np.float64) - rows.mean(axis=0, dtype=np.float64)
    reduced = centred @ np.linalg.svd(centred, full_matrices=False)[2][:PRINCIPAL_COMPONENTS].T
    reduced /= reduced[:, 0].std() or 1.0
    model = GaussianMixture(min(count, len(rows)), covariance_type="diag", reg_covar=1e-3, random_state=0, max_iter=500)
    assigned: Ints = np.asarray(model.fit_predict(reduced), np.int64)
    return assigned


def ellipse(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a closed ellipse of some standard deviations around points in the plane."""
    angles = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS)
    variances, axes = np.linalg.eigh(np.cov(points.T) + 1e-5 * np.eye(2))
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outline: NDArray[np.float64] = (
        points.mean(axis=0) + (circle * ELLIPSE_DEVIATIONS * np.sqrt(np.maximum(variances, 0))) @ axes.T
    )
    return outline


def _describe(groups: Sequence[Ints], classes: Ints) -> tuple[Cell, ...]:
    """Return the number of clusters, images and classes per cluster, and the percentage with several classes."""
    groups = [group for group in groups if len(group)]
    class_counts = [len(np.unique(classes[group])) for group in groups]
    images = float(np.mean([len(group) for group in groups]))
    return (
        len(groups),
        images,
        float(np.mean(class_counts)),
        100 * float(np.mean([count > 1 for count in class_counts])),
    )
