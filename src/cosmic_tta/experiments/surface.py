"""Accuracy over the weights of the branches: a picture that only labels can draw."""

from __future__ import annotations

import numpy as np

from cosmic_tta.charts import Cell, Chart, Outcome, Series, slug
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.measures import accuracy, compact, conditions, truth
from cosmic_tta.experiments.published import where
from cosmic_tta.oracle import oracle_surface

FINE, COARSE = 0.05, 0.25  # steps: of the paper, and of the cells that are drawn
LARGEST = 10.0
NEAR = 1.0  # points below the best that still count as near it
SURFACES = ("cosmic@paper", "cosmic@official")  # their fusion is a weighted sum


def fusion_surface(context: Context) -> Outcome:
    """β2 and β3 from 0 to 10, from the branches of one run a seed: they do not depend on the weights."""
    packs, missing = context.labelled()
    missing += [f"{pack.name}: no auxiliary features, so no β3." for pack in packs if pack.aux is None]
    weights = np.linspace(0, LARGEST, round(LARGEST / FINE) + 1)
    every = round(COARSE / FINE)
    one = round(1 / FINE)
    charts, tables = [], []
    for pack in (pack for pack in packs if pack.aux is not None):
        rows: list[list[Cell]] = []
        for spec in SURFACES:
            runs = [context.run(spec, pack, seed) for seed in context.seeds]
            found = [oracle_surface(run.parts, truth(run, pack), weights, weights) for run in runs]
            surface = 100 * np.mean(found, axis=0)  # [β2, β3]
            css, afv = np.unravel_index(surface.argmax(), surface.shape)
            near = float((surface >= surface.max() - NEAR).mean())
            rows.append(
                [
                    spec,
                    float(surface[0, 0]),
                    float(surface[one, one]),
                    float(surface.max()),
                    float(weights[css]),
                    float(weights[afv]),
                    100 * near,
                ]
            )
            names = [f"{value:g}" for value in weights[::every]]
            charts.append(
                Chart(
                    f"fusion-surface-{slug(pack.name)}-{slug(spec)}",
                    f"Oracle picture: accuracy (%) over the weights, {spec} on {pack.name}",
                    "heat",
                    "β3, of AFV",
                    "β2, of CSS",
                    series=[
                        Series("β = 1, 1, 1: no label used", [one / every], [one / every], mark="*"),
                        Series("oracle best", [afv / every], [css / every], mark="x"),
                    ],
                    cells=surface[::every, ::every].tolist(),
                    row_names=names,
                    column_names=names,
                    note="Every cell but the marked 1, 1, 1 is known from labels alone.",
                )
            )
        rows.append(["cosmic, our label-free fusion", None, accuracy(context, "cosmic", pack).mean, *[None] * 4])
        columns = [
            "method",
            "β = 1, 0, 0 (zero-shot)",
            "no label used",
            "oracle best",
            "oracle β2",
            "oracle β3",
            "oracle: % of the surface within 1 point of the best",
        ]
        tables.append(compact(f"fusion-surface-{slug(pack.name)}", conditions(context, pack), columns, rows))
    notes = [
        "The surface is the evaluator's: it shows what weights would have done, and is no result of any method.",
        f"Computed by the paper's step of {FINE:g}; every {every}th cell is drawn.",
        "The paper prints no numbers here.",
    ]
    title = f"Fusion surface ({where('fusion-surface')})"
    return Outcome("fusion-surface", title, tables, charts, notes, missing, context.settings)
