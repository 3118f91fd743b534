"""Accuracy over the fusion weights of the branches. Only labels can show it, so it is marked as oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.evaluation.oracle import oracle_surface
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Series, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.published import reference
from cosmic_tta.reporting.paper.seed_accuracy import accuracy, compact_table, labels_in_order, stream_description

STEP, DRAWN_STEP = 0.05, 0.25  # of the weights: as in the paper, and as drawn
MAX_WEIGHT = 10.0
NEAR_BEST = 1.0  # percentage points below the best accuracy
WEIGHTS = np.linspace(0, MAX_WEIGHT, round(MAX_WEIGHT / STEP) + 1)
ONE = round(1 / STEP)  # index of the weight 1
DRAWN_EVERY = round(DRAWN_STEP / STEP)
PRESETS = ("cosmic@paper", "cosmic@official")  # those whose fusion is a weighted sum
COLUMNS = (
    "method",
    "β = 1, 0, 0 (zero-shot)",
    "no label used",
    "oracle best",
    "oracle β2",
    "oracle β3",
    "oracle: % of the surface within 1 point of the best",
)


def fusion_surface(context: ExperimentContext) -> ResultSet:
    """Return the accuracy for β2 and β3 from 0 to 10, computed from the branches of one run per seed."""
    packs, missing = context.labelled_packs()
    missing += [f"{pack.name}: no auxiliary features, so no β3." for pack in packs if pack.aux is None]
    charts, tables = [], []
    for pack in (pack for pack in packs if pack.aux is not None):
        rows: list[list[Cell]] = []
        for preset in PRESETS:
            surface = _mean_surface(context, pack, preset)
            rows.append([preset, *_describe_surface(surface)])
            charts.append(_surface_chart(pack, preset, surface))
        rows.append(["cosmic, our label-free fusion", None, accuracy(context, "cosmic", pack).mean, *[None] * 4])
        name = f"fusion-surface-{slug(pack.name)}"
        tables.append(compact_table(name, stream_description(context, pack), COLUMNS, rows))
    notes = [
        "The evaluator computes the surface from labels. It shows the effect of the weights; it is not a result of any "
        "method.",
        f"Computed with the paper's step of {STEP:g}; every {DRAWN_EVERY}th cell is drawn.",
        "The paper prints no numbers here.",
    ]
    title = f"Fusion surface ({reference('fusion-surface')})"
    return ResultSet("fusion-surface", title, tables, charts, notes, missing, context.settings)


def _mean_surface(context: ExperimentContext, pack: FeaturePack, preset: str) -> NDArray[np.float64]:
    """Return the accuracy in percent by weight, [β2, β3], as the mean over seeds."""
    runs = [context.run(preset, pack, seed) for seed in context.seeds]
    surfaces = [oracle_surface(run.parts, labels_in_order(run, pack), WEIGHTS, WEIGHTS) for run in runs]
    mean: NDArray[np.float64] = 100 * np.mean(surfaces, axis=0)
    return mean


def _describe_surface(surface: NDArray[np.float64]) -> list[Cell]:
    """Return the cells of a table row about a surface, without the name."""
    css, afv = np.unravel_index(surface.argmax(), surface.shape)
    return [
        float(surface[0, 0]),
        float(surface[ONE, ONE]),
        float(surface.max()),
        float(WEIGHTS[css]),
        float(WEIGHTS[afv]),
        100 * float((surface >= surface.max() - NEAR_BEST).mean()),
    ]


def _surface_chart(pack: FeaturePack, preset: str, surface: NDArray[np.float64]) -> Chart:
    css, afv = np.unravel_index(surface.argmax(), surface.shape)
    names = [f"{value:g}" for value in WEIGHTS[::DRAWN_EVERY]]
    return Chart(
        f"fusion-surface-{slug(pack.name)}-{slug(preset)}",
        f"Accuracy over fusion weights (oracle): {preset} on {pack.name}",
        "heatmap",
        "β3, weight of AFV",
        "β2, weight of CSS",
        series=[
            Series("β = 1, 1, 1: no label used", [ONE / DRAWN_EVERY], [ONE / DRAWN_EVERY], marker="*"),
            Series("oracle best", [afv / DRAWN_EVERY], [css / DRAWN_EVERY], marker="x"),
        ],
        cells=surface[::DRAWN_EVERY, ::DRAWN_EVERY].tolist(),
        row_names=names,
        column_names=names,
        z_title="accuracy (%)",
        note="Only the marked weights 1, 1, 1 were set without labels.",
    )
