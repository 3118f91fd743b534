"""Saliency maps of both encoders, with the five most probable classes (Figure 4)."""

from __future__ import annotations

from typing import Any

from PIL import Image

from cosmic_tta.core.arrays import Array
from cosmic_tta.encoders import make_encoder
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import Chart, ResultSet, slug
from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.example_images import (
    ILLUSTRATION_NOTE,
    choose_examples,
    pack_with_images,
    top_classes,
    true_class,
)
from cosmic_tta.reporting.saliency import occlusion_map, overlay_map, resize_for_display, token_map

MAX_EXAMPLES = 6


def attention(context: ExperimentContext) -> ResultSet:
    """Return saliency maps of CLIP and the auxiliary encoder, and the top five of zero-shot and COSMIC."""
    pack, missing = pack_with_images(context)
    run = context.run("cosmic", pack)
    clip, aux = (make_encoder(name, kind="image") for name in (pack.clip_model, pack.aux_model))
    images: list[tuple[Any, str]] = []
    for example in choose_examples(run, pack, MAX_EXAMPLES):
        if example.image is None:
            continue
        zero_shot = _top_five("zero-shot", pack, run.parts["zero_shot"][example.step])
        adapted = _top_five("COSMIC", pack, run.scores[example.step])
        name = true_class(pack, example)
        heading = "unlabelled" if name is None else f"true class: {name}"
        images.append((resize_for_display(example.image), f"{heading}\nimage {example.step + 1}"))
        for kind, encoder, top_five in (("CLIP", clip, zero_shot), ("auxiliary", aux, adapted)):
            seen = encoder.preprocessing.pixels(Image.fromarray(example.image))
            images.append((overlay_map(seen, token_map(encoder, seen)), f"{kind}, token map\n{top_five}"))
            images.append((overlay_map(seen, occlusion_map(encoder, seen)), f"{kind}, occlusion map"))
        context.on_progress(example.step + 1, len(run.order), "maps")
    chart = Chart(
        slug("attention", pack.name),
        f"Saliency maps of {pack.clip_model} and {pack.aux_model}: {pack.name}",
        "images",
        images=images,
        images_per_row=5,
        note="Token map: similarity of each patch token to the token that summarizes the image. Occlusion map: how "
        "much the feature changes when a patch is covered with the mean colour. Bright is high; each map has its own "
        "scale. The top five of zero-shot are below the CLIP map; those of COSMIC, which uses both encoders, are below "
        "the auxiliary map.",
    )
    notes = [
        ILLUSTRATION_NOTE,
        "The maps come from patch tokens and from covered patches, for any encoder. They are not attention weights.",
    ]
    return ResultSet(
        "attention",
        "Saliency maps of the encoders (Figure 4)",
        charts=[chart],
        notes=notes,
        missing=missing,
        settings=context.settings,
    )


def _top_five(name: str, pack: FeaturePack, scores: Array) -> str:
    classes = top_classes(pack.class_names, scores)
    return f"{name}: " + ", ".join(f"{label} {100 * share:.0f} %" for label, share in classes)
