"""Cases in which adaptation changed the answer: rightly or wrongly, and which classes each branch let in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.charts import Cell, Chart, Outcome, Table, slug
from cosmic_tta.encoders import make_encoder
from cosmic_tta.errors import CosmicError
from cosmic_tta.maps import occlusion_map, overlaid, shown, token_map
from cosmic_tta.portraits.choice import featured, one_each
from cosmic_tta.runs import SavedRun, chosen_cases

MOST_INLIERS = 6  # names that a card has room for
MOST_CARDS = 12
MOST_ROWS = 16
MAPPED = 3  # pictures whose maps are drawn
AT_HAND = "mini:"  # encoders that every installation has


def cases(runs: Sequence[SavedRun], suffix: str = "") -> Outcome:
    """Return the gallery and the table of changed cases of one run."""
    run = _telling(one_each(runs))
    if not len(run.changed):
        return Outcome(slug("cases", suffix), f"Where adaptation changed the answer{suffix}")
    steps = [step for step in chosen_cases(run.answers, run.changed, run.labels) if step in set(run.changed.tolist())]
    charts = [*_galleries(run), *_maps(run)]
    return Outcome(
        slug("cases", suffix),
        f"Where adaptation changed the answer{suffix}",
        [_table(run, steps)],
        charts,
        [_summary(run)],
    )


def _telling(runs: Sequence[SavedRun]) -> SavedRun:
    """Choose the run that is shown in detail, unless it has too few cases to fill a gallery: then the one with most."""
    run = featured(runs)
    return run if len(run.changed) >= MOST_CARDS else max(runs, key=lambda one: len(one.changed))


def _summary(run: SavedRun) -> str:
    told = f"{run.report.title} and zero-shot disagree on {_disagreements(run):,} of {run.report.n:,} images."
    if run.labels is None:
        return told
    labels, before = run.labels, run.parts["zero_shot"].argmax(axis=1)
    changed = run.answers != before
    better = int((changed & (run.answers == labels)).sum())
    worse = int((changed & (before == labels)).sum())
    return f"{told} {better:,} answers became right, {worse:,} became wrong; the others were wrong before and after."


def _disagreements(run: SavedRun) -> int:
    return int((run.answers != run.parts["zero_shot"].argmax(axis=1)).sum())


def _inliers(run: SavedRun, step: int) -> dict[str, list[str]]:
    row = int(np.searchsorted(run.changed, step))
    return {space: [run.class_names[int(k)] for k in np.flatnonzero(mask[row])] for space, mask in run.inliers.items()}


def _shortened(names: Sequence[str], classes: Sequence[str]) -> str:
    others = [name for name in classes if name not in set(names)]
    if names and len(others) < len(names) and len(others) <= MOST_INLIERS:
        return f"all but {', '.join(others)}" if others else "all"
    more = f", +{len(names) - MOST_INLIERS}" if len(names) > MOST_INLIERS else ""
    return ", ".join(names[:MOST_INLIERS]) + more if names else "none"


def _verdict(run: SavedRun, step: int) -> str:
    if run.labels is None or run.labels[step] < 0:
        return ""
    before = int(run.parts["zero_shot"][step].argmax())
    if run.answers[step] == run.labels[step]:
        return "became right"
    return "became wrong" if before == run.labels[step] else "wrong both times"


def _table(run: SavedRun, steps: Sequence[int]) -> Table:
    spaces = list(run.inliers)
    columns = (
        "image",
        "true class",
        "zero-shot",
        run.report.title,
        "verdict",
        *(f"{space} inliers" for space in spaces),
    )
    rows: list[tuple[Cell, ...]] = []
    by_verdict: dict[str, list[int]] = {}
    for step in steps:
        by_verdict.setdefault(_verdict(run, step), []).append(step)
    for verdict, group in sorted(by_verdict.items()):
        for step in group[: MOST_ROWS // len(by_verdict)]:
            told = _inliers(run, step)
            truth = "–" if run.labels is None or run.labels[step] < 0 else run.class_names[int(run.labels[step])]
            names = (truth, *_said(run, step), verdict or "–")
            rows.append((step + 1, *names, *(_shortened(told[space], run.class_names) for space in spaces)))
    note = (
        "The number is the image's place in the stream. Inliers are the classes that a branch's nearest cliques let in."
    )
    return Table(slug("cases", run.report.pack), "Changed answers", columns, rows, note)


def _said(run: SavedRun, step: int) -> tuple[str, str]:
    before = run.class_names[int(run.parts["zero_shot"][step].argmax())]
    return before, run.class_names[int(run.answers[step])]


def _galleries(run: SavedRun) -> list[Chart]:
    cards: dict[str, list[tuple[NDArray[np.uint8], str]]] = {}
    for step, pixels in zip(run.pictured.tolist(), run.pictures, strict=True):
        before, after = _said(run, step)
        verdict = _verdict(run, step)
        lines = [f"{before} → {after}"]
        if verdict == "wrong both times":
            lines.append(f"truly {run.class_names[int(np.asarray(run.labels)[step])]}")
        lines += [f"{space}: {_shortened(names, run.class_names)}" for space, names in _inliers(run, step).items()]
        cards.setdefault(verdict, []).append((pixels, "\n".join(lines)))
    titles = {
        "became right": "Answers that became right",
        "became wrong": "Answers that became wrong",
        "wrong both times": "Wrong before and after",
        "": "Changed answers",
    }
    note = "Zero-shot's answer → the adapted one. Below: the classes that each branch let in."
    return [
        Chart(
            slug("gallery", verdict, run.report.pack),
            titles[verdict],
            "pictures",
            pictures=cards[verdict][:MOST_CARDS],
            note=note,
        )
        for verdict in titles
        if cards.get(verdict)
    ]


def _maps(run: SavedRun) -> list[Chart]:
    names = [name for name in (run.clip_model, run.aux_model) if name.startswith(AT_HAND)]
    if not names or not len(run.pictures):
        return []
    try:
        encoders = [make_encoder(name, kind="image") for name in names]
    except CosmicError:
        return []
    pictures: list[tuple[NDArray[np.uint8], str]] = []
    for step, pixels in list(zip(run.pictured.tolist(), run.pictures, strict=True))[:MAPPED]:
        _, after = _said(run, step)
        pictures.append((shown(pixels), f"image {step + 1}\n{after}"))
        for encoder in encoders:
            cut = encoder.preprocessing.pixels(Image.fromarray(pixels))
            pictures.append((overlaid(cut, token_map(encoder, cut)), f"{encoder.name}\ntoken map"))
            pictures.append((overlaid(cut, occlusion_map(encoder, cut)), f"{encoder.name}\nocclusion map"))
    return [
        Chart(
            slug("maps", run.report.pack),
            "Where the encoders look",
            "pictures",
            pictures=pictures,
            per_row=1 + 2 * len(encoders),
            note="Token map: how like the picture's summary each patch is. Occlusion map: how far the feature moves "
            "when a patch is covered. Bright is much; each map has its own scale.",
        )
    ]
