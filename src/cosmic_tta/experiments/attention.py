"""What both encoders look at, with the five classes that come first (Fig. 4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from cosmic_tta.charts import Chart, Outcome, slug
from cosmic_tta.encoders import make_encoder
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.samples import Shown, chosen, top, with_pictures
from cosmic_tta.maps import occlusion_map, overlaid, shown, token_map
from cosmic_tta.ops import Array
from cosmic_tta.packs import FeaturePack

SHOWN = 6


def attention(context: Context) -> Outcome:
    """Draw the maps of CLIP and of the auxiliary encoder, and zero-shot's top five beside COSMIC's."""
    pack, missing = with_pictures(context)
    run = context.run("cosmic", pack)
    clip, aux = (make_encoder(name, kind="image") for name in (pack.clip_model, pack.aux_model))
    pictures: list[tuple[Any, str]] = []
    for one in chosen(run, pack, SHOWN):
        if one.picture is None:
            continue
        before = _five("zero-shot", pack, run.parts["zero_shot"][one.step])
        after = _five("COSMIC", pack, run.scores[one.step])
        pictures.append((shown(one.picture), f"{_truth(pack, one)}\nimage {one.step + 1}"))
        for name, encoder, told in (("CLIP", clip, before), ("auxiliary", aux, after)):
            cut = encoder.preprocessing.pixels(Image.fromarray(one.picture))
            pictures.append((overlaid(cut, token_map(encoder, cut)), f"{name}, token map\n{told}"))
            pictures.append((overlaid(cut, occlusion_map(encoder, cut)), f"{name}, occlusion map"))
        context.watch(one.step + 1, len(run.order), "maps")
    chart = Chart(
        slug("attention", pack.name),
        f"Where {pack.clip_model} and {pack.aux_model} look: {pack.name}",
        "pictures",
        pictures=pictures,
        per_row=5,
        note="Token map: how like the picture's summary each patch's token is. Occlusion map: how far the feature "
        "moves when a patch is covered with the mean colour. Bright is much; each map has its own scale. The top five "
        "of zero-shot stand under CLIP, those of COSMIC, which asks both encoders, under the auxiliary one.",
    )
    notes = [
        "Images were chosen by label, those that adaptation put right first: they illustrate, and prove nothing.",
        "These maps are made of patch tokens and of covered patches, for any encoder; they are no attention weights.",
    ]
    return Outcome(
        "attention",
        "What the encoders look at (Figure 4)",
        charts=[chart],
        notes=notes,
        missing=missing,
        settings=context.settings,
    )


def _truth(pack: FeaturePack, one: Shown) -> str:
    return "unlabelled" if pack.labels is None else f"truly {pack.class_names[int(np.asarray(pack.labels)[one.index])]}"


def _five(name: str, pack: FeaturePack, scores: Array) -> str:
    return f"{name}: " + ", ".join(f"{label} {100 * share:.0f} %" for label, share in top(pack.class_names, scores))
