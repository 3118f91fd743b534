"""What a cluster holds: Gaussian ones hold one class, cliques tie several together (Fig. 2b)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.charts import Cell, Chart, Outcome, Series, Table, slug
from cosmic_tta.drawing.needs import require
from cosmic_tta.drawing.shapes import surround
from cosmic_tta.evaluate import evaluate
from cosmic_tta.experiments.context import Context
from cosmic_tta.methods import make_method
from cosmic_tta.ops import Array, Ints, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.projection import tsne
from cosmic_tta.runs import Memory, memories

COLUMNS = ("clusters", "number", "images each", "classes each", "with several classes, %")
DIMENSIONS = 16  # that a Gaussian is fitted in: there are few images
REACH = 2.0  # standard deviations that an ellipse shows
MOST_HULLS = 12
SHOTS = 16
CORNERS = 48


def clusters(context: Context) -> Outcome:
    """Cluster the images that COSMIC keeps, by a mixture of Gaussians and by the cliques of its class graph."""
    require("sklearn", "matplotlib")
    charts, tables, missing = [], [], []
    for pack in context.streams:
        memory = kept(context, pack)
        if memory is None or len(memory.slots) < 8:
            missing.append(f"{pack.name}: too few images to cluster.")
            continue
        drawn, table = _compared(pack, memory)
        charts += drawn
        tables.append(table)
    notes = [
        "Both cluster the images in COSMIC's cache of the auxiliary space, or of CLIP's without one. Colours are the "
        "classes under which images are kept, which are pseudo-labels."
    ]
    return Outcome(
        "clusters",
        "Feature clusters, cliques against Gaussians (Figure 2b)",
        tables,
        charts,
        notes,
        missing,
        context.settings,
    )


def kept(context: Context, pack: FeaturePack) -> Memory | None:
    """Run COSMIC over a pack and return what its finest space holds in the end."""
    method, state = make_method("cosmic", shots=SHOTS, aux_shots=SHOTS), None
    for step in evaluate(method, pack, seed=context.seeds[0], limit=context.limit):
        state = step.state
        context.watch(step.done, step.total, f"cosmic on {pack.name}")
    found = list(memories(state))
    return found[-1] if found else None


def _compared(pack: FeaturePack, memory: Memory) -> tuple[list[Chart], Table]:
    classes = len(pack.class_names)
    at = tsne(unit(memory.slots))
    middles = np.array(
        [at[memory.classes == k].mean(axis=0) if (memory.classes == k).any() else [np.nan] * 2 for k in range(classes)]
    )
    gaussian = gaussian_clusters(memory.slots, len(np.unique(memory.classes)))
    ellipses = [ellipse(at[gaussian == k]) for k in np.unique(gaussian) if (gaussian == k).sum() > 2]
    cliques = sorted(
        {tuple(np.unique(clique % classes).tolist()) for clique in memory.cliques}, key=lambda one: (-len(one), one)
    )
    several = [clique for clique in cliques if len(clique) > 1 and np.isfinite(middles[list(clique)]).all()]
    hulls = [surround(middles[list(clique)], 0.045) for clique in several[:MOST_HULLS]]
    series = [
        Series(pack.class_names[int(k)], at[memory.classes == k, 0].tolist(), at[memory.classes == k, 1].tolist())
        for k in np.unique(memory.classes)
    ]
    named = len(series) <= 40
    charts = [
        Chart(
            slug("clusters-gaussian", pack.name),
            f"Gaussian clusters: {pack.name}",
            "points",
            series=series,
            bare=True,
            named=named,
            outlines=_corners(ellipses),
            note=f"A mixture of {len(np.unique(gaussian))} Gaussians; an ellipse reaches {REACH:g} deviations of its "
            "images in this t-SNE.",
        ),
        Chart(
            slug("clusters-cliques", pack.name),
            f"Clique clusters: {pack.name}",
            "points",
            series=series,
            bare=True,
            named=named,
            outlines=_corners(hulls),
            note=f"Each hull joins the centres of the classes of one clique; the {len(hulls)} largest of "
            f"{len(several)} with several classes.",
        ),
    ]
    groups = {
        "Gaussian": [np.flatnonzero(gaussian == k) for k in np.unique(gaussian)],
        "clique": [np.flatnonzero(np.isin(memory.classes, clique)) for clique in cliques],
    }
    rows = [(name, *_described(found, memory.classes)) for name, found in groups.items()]
    note = f"{len(memory.slots)} kept images of {len(series)} classes; a clique's images are those of its classes."
    return charts, Table(slug("clusters", pack.name), f"What a cluster holds: {pack.name}", COLUMNS, rows, note)


def gaussian_clusters(rows: Array, count: int) -> Ints:
    """Assign rows to a mixture of so many Gaussians with diagonal covariances, fitted in a few rotated dimensions."""
    from sklearn.mixture import GaussianMixture

    flat = np.asarray(rows, np.float64) - rows.mean(axis=0, dtype=np.float64)
    flat = flat @ np.linalg.svd(flat, full_matrices=False)[2][:DIMENSIONS].T
    flat /= flat[:, 0].std() or 1.0
    fit = GaussianMixture(min(count, len(rows)), covariance_type="diag", reg_covar=1e-3, random_state=0, max_iter=500)
    found: Ints = np.asarray(fit.fit_predict(flat), np.int64)
    return found


def ellipse(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an ellipse of some deviations around points of the plane, closed."""
    turns = np.linspace(0, 2 * np.pi, CORNERS)
    values, axes = np.linalg.eigh(np.cov(points.T) + 1e-5 * np.eye(2))
    circle = np.stack([np.cos(turns), np.sin(turns)], axis=1) * REACH * np.sqrt(np.maximum(values, 0))
    outline: NDArray[np.float64] = points.mean(axis=0) + circle @ axes.T
    return outline


def _corners(outlines: Sequence[NDArray[np.float64]]) -> list[list[tuple[float, float]]]:
    return [[(float(x), float(y)) for x, y in outline] for outline in outlines]


def _described(groups: Sequence[Ints], labels: Ints) -> tuple[Cell, ...]:
    groups = [group for group in groups if len(group)]
    held = [len(np.unique(labels[group])) for group in groups]
    each = float(np.mean([len(group) for group in groups]))
    return len(groups), each, float(np.mean(held)), 100 * float(np.mean([count > 1 for count in held]))
