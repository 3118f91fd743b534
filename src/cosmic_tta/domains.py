"""Packs of one task: some images of one, several joined into one, or a second domain made in feature space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import UNIT_TOLERANCE
from cosmic_tta.errors import PackError
from cosmic_tta.ops import Ints, as_float32, unit
from cosmic_tta.packs import FeaturePack

SAME = ("class_names", "clip_model", "aux_model", "logit_scale")


def part(pack: FeaturePack, places: slice | Ints, name: str | None = None) -> FeaturePack:
    """Return some images of a pack, under another name if told: the rest can be shots of few-shot methods.

    >>> from cosmic_tta.synthetic import superclass_pack
    >>> len(part(superclass_pack(images=20), slice(5, 15)))
    10
    """
    chosen = np.arange(len(pack))[places]
    rows: dict[str, Any] = {"clip": pack.clip[chosen], "keys": tuple(pack.keys[k] for k in chosen) if pack.keys else ()}
    for array in ("aux", "labels", "domains"):
        held = getattr(pack, array)
        rows[array] = None if held is None else held[chosen]
    return replace(pack, name=pack.name if name is None else name, **rows)


def join(packs: Sequence[FeaturePack]) -> FeaturePack:
    """Join packs of one task, same classes, texts and encoders, into one; `domains` tells which pack an image is from.

    The arrays of all packs are read into memory.
    """
    if len(packs) < 2:
        raise PackError(f"to join packs takes at least two; given {len(packs)}.")
    first = packs[0]
    for other in packs[1:]:
        _check_same_task(first, other)

    def rows(name: str) -> Any:
        arrays = [getattr(pack, name) for pack in packs]
        return None if arrays[0] is None else np.concatenate(arrays)

    return replace(
        first,
        name=" + ".join(pack.name for pack in packs),
        clip=rows("clip"),
        aux=rows("aux"),
        labels=rows("labels"),
        domains=np.repeat(np.arange(len(packs)), [len(pack) for pack in packs]),
        keys=tuple(key for pack in packs for key in pack.keys) if all(pack.keys for pack in packs) else (),
        source="; ".join(dict.fromkeys(pack.source for pack in packs if pack.source)),
        licence="; ".join(dict.fromkeys(pack.licence for pack in packs if pack.licence)),
        made={},
    )


def _check_same_task(first: FeaturePack, other: FeaturePack) -> None:
    where = f"packs {first.name!r} and {other.name!r} cannot be joined: "
    for name in SAME:
        if getattr(first, name) != getattr(other, name):
            raise PackError(
                f"{where}{name} differs ({_short(getattr(first, name))} and {_short(getattr(other, name))}); "
                "domains are of one task."
            )
    if first.text.shape != other.text.shape or np.abs(as_float32(first.text) - other.text).max() > UNIT_TOLERANCE:
        raise PackError(f"{where}their class texts differ; encode both with the same prompts.")
    for name in ("clip", "aux", "labels"):
        one, two = getattr(first, name), getattr(other, name)
        if (one is None) != (two is None):
            raise PackError(f"{where}one has {name}, the other has none.")
        if one is not None and one.shape[1:] != two.shape[1:]:
            raise PackError(
                f"{where}{name} is {list(one.shape[1:])} an image in one, {list(two.shape[1:])} in the other."
            )


def _short(value: Any) -> str:
    return f"{value!r:.40}"


def move_half(pack: FeaturePack, seed: int, length: float) -> tuple[FeaturePack, Ints]:
    """Move half of the images, drawn at random, by one common offset: a second domain, in feature space.

    In each space the offset is a random direction of the given length; a moved feature is scaled back to length
    one, and all views of an image move alike. A random direction favours some texts over others, the more the
    longer it is: so zero-shot loses.
    """
    rng = np.random.default_rng([seed, 2])  # neither the order's stream of numbers nor that of useless auxiliaries
    domains = np.zeros(len(pack), np.int64)
    domains[rng.permutation(len(pack))[len(pack) // 2 :]] = 1
    moved = domains == 1

    def move(rows: NDArray[Any]) -> NDArray[Any]:
        offset = length * unit(as_float32(rng.standard_normal(rows.shape[-1])))
        result = np.array(rows)
        result[moved] = unit(as_float32(result[moved]) + offset)
        return result

    clip = move(pack.clip)
    return replace(pack, clip=clip, aux=None if pack.aux is None else move(pack.aux), domains=domains), domains
