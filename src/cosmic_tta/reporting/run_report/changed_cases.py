"""Images whose prediction adaptation changed: how many became correct or wrong, and what each branch selected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.encoders import make_encoder
from cosmic_tta.evaluation.run_folder import SavedRun, select_changed_steps
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Table, slug
from cosmic_tta.reporting.run_report.selection import featured_run, first_run_per_method
from cosmic_tta.reporting.saliency import occlusion_map, overlay_map, resize_for_display, token_map

MAX_INLIERS = 6  # class names that are listed for one image
MAX_GALLERY_IMAGES = 12
MAX_ROWS = 16
MAPPED_IMAGES = 3  # with saliency maps
EMBEDDED_ENCODER = "mini:"  # encoders of this family are part of every installation
CORRECTED, BROKEN, STILL_WRONG, UNLABELLED = "became correct", "became wrong", "wrong before and after", ""
GALLERY_TITLES = {
    CORRECTED: "Predictions that became correct",
    BROKEN: "Predictions that became wrong",
    STILL_WRONG: "Wrong before and after",
    UNLABELLED: "Changed predictions",
}


def changed_cases_section(runs: Sequence[SavedRun], suffix: str = "") -> ResultSet:
    """Return a table, galleries and saliency maps of the changed cases of one run."""
    run = _choose_run(first_run_per_method(runs))
    name, title = slug("changed-cases", suffix), f"Where adaptation changed the prediction{suffix}"
    if not len(run.changed_steps):
        return ResultSet(name, title)
    explained = set(run.changed_steps.tolist())
    steps = [step for step in select_changed_steps(run.answers, run.changed_steps, run.labels) if step in explained]
    charts = [*_gallery_charts(run), *_saliency_charts(run)]
    return ResultSet(name, title, [_cases_table(run, steps)], charts, [_summary(run)])


def _choose_run(runs: Sequence[SavedRun]) -> SavedRun:
    """Return the featured run, or the one with the most changed cases if those of the first do not fill a gallery."""
    run = featured_run(runs)
    return (
        run if len(run.changed_steps) >= MAX_GALLERY_IMAGES else max(runs, key=lambda other: len(other.changed_steps))
    )


def _summary(run: SavedRun) -> str:
    zero_shot = run.parts["zero_shot"].argmax(axis=1)
    changed = run.answers != zero_shot
    text = f"{run.report.title} and zero-shot disagree on {int(changed.sum()):,} of {run.report.n:,} images."
    if run.labels is None:
        return text
    corrected = int((changed & (run.answers == run.labels)).sum())
    broken = int((changed & (zero_shot == run.labels)).sum())
    return (
        f"{text} {corrected:,} predictions became correct and {broken:,} became wrong; the others were wrong before "
        "and after."
    )


def _inlier_names(run: SavedRun, step: int) -> dict[str, list[str]]:
    """Return the inlier classes of a changed step by feature space."""
    row = int(np.searchsorted(run.changed_steps, step))
    return {space: [run.class_names[int(k)] for k in np.flatnonzero(mask[row])] for space, mask in run.inliers.items()}


def _list_names(names: Sequence[str], classes: Sequence[str]) -> str:
    """Return class names as a short text: the first few, or all classes except a few."""
    others = [name for name in classes if name not in set(names)]
    if names and len(others) < len(names) and len(others) <= MAX_INLIERS:
        return f"all but {', '.join(others)}" if others else "all"
    more = f", +{len(names) - MAX_INLIERS}" if len(names) > MAX_INLIERS else ""
    return ", ".join(names[:MAX_INLIERS]) + more if names else "none"


def _effect(run: SavedRun, step: int) -> str:
    """Return what adaptation did to a changed prediction, empty if the label is not known."""
    if run.labels is None or run.labels[step] < 0:
        return UNLABELLED
    if run.answers[step] == run.labels[step]:
        return CORRECTED
    return BROKEN if int(run.parts["zero_shot"][step].argmax()) == run.labels[step] else STILL_WRONG


def _cases_table(run: SavedRun, steps: Sequence[int]) -> Table:
    spaces = list(run.inliers)
    columns = (
        "image",
        "true class",
        "zero-shot",
        run.report.title,
        "effect",
        *(f"{space} inliers" for space in spaces),
    )
    rows: list[tuple[Cell, ...]] = []
    by_effect: dict[str, list[int]] = {}
    for step in steps:
        by_effect.setdefault(_effect(run, step), []).append(step)
    for effect, group in sorted(by_effect.items()):
        for step in group[: MAX_ROWS // len(by_effect)]:
            inliers = _inlier_names(run, step)
            truth = "–" if run.labels is None or run.labels[step] < 0 else run.class_names[int(run.labels[step])]
            names = (truth, *_predictions(run, step), effect or "–")
            rows.append((step + 1, *names, *(_list_names(inliers[space], run.class_names) for space in spaces)))
    note = (
        "The number is the position of the image in the stream. Inliers are the classes in a branch's nearest cliques."
    )
    return Table(slug("cases", run.report.pack), "Changed predictions", columns, rows, note)


def _predictions(run: SavedRun, step: int) -> tuple[str, str]:
    """Return the classes that zero-shot and the method predicted."""
    before = run.class_names[int(run.parts["zero_shot"][step].argmax())]
    return before, run.class_names[int(run.answers[step])]


def _gallery_charts(run: SavedRun) -> list[Chart]:
    images: dict[str, list[tuple[NDArray[np.uint8], str]]] = {}
    for step, pixels in zip(run.image_steps.tolist(), run.images, strict=True):
        before, after = _predictions(run, step)
        effect = _effect(run, step)
        lines = [f"{before} → {after}"]
        if effect == STILL_WRONG:
            lines.append(f"true class: {run.class_names[int(np.asarray(run.labels)[step])]}")
        inliers = _inlier_names(run, step)
        lines += [f"{space}: {_list_names(names, run.class_names)}" for space, names in inliers.items()]
        images.setdefault(effect, []).append((pixels, "\n".join(lines)))
    note = "Zero-shot prediction → adapted prediction."
    note += " Below: the inlier classes of each branch." if run.inliers else ""
    return [
        Chart(
            slug("gallery", effect, run.report.pack),
            title,
            "images",
            images=images[effect][:MAX_GALLERY_IMAGES],
            note=note,
        )
        for effect, title in GALLERY_TITLES.items()
        if images.get(effect)
    ]


def _saliency_charts(run: SavedRun) -> list[Chart]:
    """Return saliency maps of some images, if the run used the embedded encoders."""
    names = [name for name in (run.clip_model, run.aux_model) if name.startswith(EMBEDDED_ENCODER)]
    if not names or not len(run.images):
        return []
    try:
        encoders = [make_encoder(name, kind="image") for name in names]
    except CosmicError:
        return []
    images: list[tuple[NDArray[np.uint8], str]] = []
    for step, pixels in list(zip(run.image_steps.tolist(), run.images, strict=True))[:MAPPED_IMAGES]:
        _, after = _predictions(run, step)
        images.append((resize_for_display(pixels), f"image {step + 1}\n{after}"))
        for encoder in encoders:
            seen = encoder.preprocessing.pixels(Image.fromarray(pixels))
            images.append((overlay_map(seen, token_map(encoder, seen)), f"{encoder.name}\ntoken map"))
            images.append((overlay_map(seen, occlusion_map(encoder, seen)), f"{encoder.name}\nocclusion map"))
    return [
        Chart(
            slug("maps", run.report.pack),
            "Saliency maps of the encoders",
            "images",
            images=images,
            images_per_row=1 + 2 * len(encoders),
            note="Token map: similarity of each patch token to the token that summarizes the image. Occlusion map: "
            "how much the feature changes when a patch is covered. Bright is high; each map has its own scale.",
        )
    ]
