"""Images to look at: some that adaptation corrected, some that were right before, each with its picture if at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosmic_tta.evaluate import Run
from cosmic_tta.experiments.context import Context
from cosmic_tta.experiments.embedded import embedded_pack
from cosmic_tta.ops import Array
from cosmic_tta.originals import Picture, picture_of
from cosmic_tta.packs import FeaturePack

SHOWN = 8
EMBEDDED = 600  # photographs that stand in where a pack has no pictures at hand


@dataclass(frozen=True, eq=False)
class Shown:
    """One image of a run."""

    step: int
    index: int
    picture: Picture | None


def with_pictures(context: Context) -> tuple[FeaturePack, list[str]]:
    """Return the first stream whose pictures are at hand, else the embedded one; and what was passed over."""
    missing: list[str] = []
    for pack in context.streams:
        if picture_of(pack, 0) is not None:
            return pack, missing
        missing.append(f"{pack.name}: its pictures are not at hand; the embedded photographs stand in.")
    return embedded_pack(EMBEDDED), missing


def chosen(run: Run, pack: FeaturePack, count: int = SHOWN) -> list[Shown]:
    """Choose images of different classes: first those that adaptation corrected, then right ones, then others."""
    after, before = run.scores.argmax(axis=1), run.parts["zero_shot"].argmax(axis=1)
    labels = after if pack.labels is None else np.asarray(pack.labels)[run.order]
    rank = np.where(after == labels, np.where(before != labels, 0, 1), 2)
    # The later half of a stream first: by then there is something to look up.
    steps = sorted(range(len(after)), key=lambda step: (rank[step], step < len(after) // 2, step))
    taken: list[int] = []
    for round_ in range(count):
        seen = [int(labels[step]) for step in taken]
        taken += [
            step for step in _firsts(steps, labels) if step not in taken and seen.count(int(labels[step])) <= round_
        ]
        steps = [step for step in steps if step not in taken]
        if len(taken) >= count:
            break
    return [Shown(step, int(run.order[step]), picture_of(pack, int(run.order[step]))) for step in taken[:count]]


def _firsts(steps: Sequence[int], labels: Array) -> list[int]:
    first: dict[int, int] = {}
    for step in steps:
        first.setdefault(int(labels[step]), step)
    return list(first.values())


def top(names: Sequence[str], scores: Array, count: int = 5) -> list[tuple[str, float]]:
    """Return the classes of the highest scores, those above zero."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [(names[int(k)], float(scores[k])) for k in order if scores[k] > 0]
