"""What an experiment is given: packs, seeds, a limit, and runs that are made once and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.embedded import photographs
from cosmic_tta.demo import BATCH, shifted_pack
from cosmic_tta.encoders import make_clip
from cosmic_tta.evaluate import Run, score
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.pictures import open_picture
from cosmic_tta.views import Views

SEEDS = (0, 1, 2)
SHIFT = Corruption("haze", 4)  # of the embedded photographs, as in `cosmic demo`
IMAGES = 2000  # all of them
CROPS = (
    "The embedded photographs have 32 × 32 pixels, and a small crop of them shows little: what views do here says "
    "nothing about full-size pictures. Crops are the paper's, of at least 8 %."
)
KEPT = 64 << 20  # bytes: larger runs are made anew when they are asked for again
Watch = Callable[[int, int, str], None]


def silent(done: int, total: int, remark: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Context:
    """One call of `cosmic paper`: what to run on, and how.

    Without packs an experiment takes the embedded photographs under a shift (`streams`). `run` gives a method's run
    over a pack; it keeps what it gave, since several experiments ask for the same. Labels are the evaluator's: a
    chart may colour by them, a method never sees them.
    """

    packs: tuple[FeaturePack, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    limit: int | None = None
    oracle: bool = False  # add what is tuned on labels, in columns of its own
    watch: Watch = silent  # (done, total, what is under way)
    kept: dict[Any, Run] = field(default_factory=dict, repr=False, compare=False)

    @property
    def streams(self) -> tuple[FeaturePack, ...]:
        """The packs that were given, or the embedded stream."""
        return self.packs or (embedded_pack(),)

    @property
    def first(self) -> FeaturePack:
        """The first of the streams, for an experiment that shows one."""
        return self.streams[0]

    @property
    def settings(self) -> dict[str, Any]:
        """What an outcome records of its making."""
        return {
            "packs": [pack.name for pack in self.streams],
            "seeds": list(self.seeds),
            "limit": self.limit,
            "oracle": self.oracle,
        }

    def labelled(self) -> tuple[list[FeaturePack], list[str]]:
        """Return the streams with labels, and a sentence for each without: accuracy cannot be told of those."""
        kept = [pack for pack in self.streams if pack.labels is not None]
        missing = [f"{pack.name}: no labels, so no accuracy." for pack in self.streams if pack.labels is None]
        return kept, missing

    def run(self, spec: str, pack: FeaturePack, seed: int | None = None, aux: str = "given", **parameters: Any) -> Run:
        """Run `name` or `name@preset` over a pack, shuffled by the seed; the first of the seeds unless told."""
        seed = self.seeds[0] if seed is None else seed
        told = tuple(sorted((name, str(value)) for name, value in parameters.items()))
        key = (spec, told, pack.name, pack.clip.shape, pack.aux_model, seed, aux, self.limit)
        if key in self.kept:
            return self.kept[key]
        method = make_method(spec, **parameters)
        what = f"{spec}{''.join(f' {name}={value}' for name, value in told)} on {pack.name}, seed {seed}"
        run = score(
            method,
            pack,
            preset=split_name(spec)[1],
            aux=aux,
            seed=seed,
            limit=self.limit,
            calibrate=False,
            watch=lambda step: self.watch(step.done, step.total, what),
        )
        if run.scores.nbytes * (1 + len(run.parts)) <= KEPT:
            self.kept[key] = run
        return run


@cache
def embedded_pack(images: int = IMAGES, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first so many embedded photographs, shifted, one view each; once a process."""
    return shifted_pack(shift, images)


@cache
def embedded_views(images: int, views: int, shift: Corruption = SHIFT) -> FeaturePack:
    """Encode the first embedded photographs, shifted, with several views each; view 0 is the plain photograph.

    Crops are the paper's, down to 8 % of a picture.
    """
    plain = embedded_pack(images, shift)
    clip, drawn = make_clip("mini:clip"), Views(views)
    rows = []
    for item in photographs().items[:images]:
        picture = shift(open_picture(item.read()), item.key)
        rows.append(drawn.of(picture, item.key, clip.preprocessing))
    pixels = np.stack(rows)  # [N, V, height, width, 3]
    flat = pixels.reshape(-1, *pixels.shape[2:])
    features = np.concatenate([clip.encode(flat[start : start + BATCH]) for start in range(0, len(flat), BATCH)])
    return FeaturePack(
        name=f"{plain.name}, {views} views",
        class_names=plain.class_names,
        clip=features.reshape(images, views, -1),
        text=plain.text,
        aux=plain.aux,
        labels=plain.labels,
        logit_scale=plain.logit_scale,
        clip_model=plain.clip_model,
        aux_model=plain.aux_model,
        source=plain.source,
    )
