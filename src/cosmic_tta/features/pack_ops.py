"""Operations on packs: a subset, several joined into one, a second domain made in feature space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Ints, as_float32, unit
from cosmic_tta.core.errors import InputError, PackError
from cosmic_tta.core.types import UNIT_TOLERANCE
from cosmic_tta.features.pack import FeaturePack

SAME_IN_ALL = ("class_names", "clip_model", "aux_model", "logit_scale")


def subset(pack: FeaturePack, rows: slice | Ints, name: str | None = None) -> FeaturePack:
    """Return some images of a pack as a pack.

    Args:
        pack: The whole pack.
        rows: A slice of its images, or their numbers.
        name: Name of the subset; that of the pack if None.

    Returns:
        A pack of these images, with the same classes.

    Examples:
        >>> from cosmic_tta.features import superclass_pack
        >>> len(subset(superclass_pack(images=20), slice(5, 15)))
        10
    """
    chosen = np.arange(len(pack))[rows]
    changes: dict[str, Any] = {"clip": pack.clip[chosen]}
    changes["keys"] = tuple(pack.keys[row] for row in chosen) if pack.keys else ()
    for array in ("aux", "labels", "domains"):
        values = getattr(pack, array)
        changes[array] = None if values is None else values[chosen]
    return replace(pack, name=pack.name if name is None else name, **changes)


def join(packs: Sequence[FeaturePack]) -> FeaturePack:
    """Join packs of one task into one pack; its `domains` number the packs.

    The arrays of all packs are read into memory.

    Args:
        packs: At least two packs with the same classes, class texts and encoders.

    Returns:
        A pack with the images of all packs, in order.

    Raises:
        PackError: The packs are not of one task.

    Examples:
        >>> from cosmic_tta.features import subset, superclass_pack
        >>> pack = superclass_pack(images=5)
        >>> join([subset(pack, slice(0, 3)), subset(pack, slice(3, 5))]).domains
        array([0, 0, 0, 1, 1])
    """
    if len(packs) < 2:
        raise PackError(f"joining packs takes at least two; given {len(packs)}.")
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
        provenance={},
    )


def _check_same_task(first: FeaturePack, other: FeaturePack) -> None:
    where = f"packs {first.name!r} and {other.name!r} cannot be joined: "
    for name in SAME_IN_ALL:
        if getattr(first, name) != getattr(other, name):
            raise PackError(
                f"{where}{name} differs ({_short(getattr(first, name))} and {_short(getattr(other, name))}); "
                "joined packs must be of one task."
            )
    if first.text.shape != other.text.shape or np.abs(as_float32(first.text) - other.text).max() > UNIT_TOLERANCE:
        raise PackError(f"{where}their class texts differ; encode both with the same prompts.")
    for name in ("clip", "aux", "labels"):
        one, two = getattr(first, name), getattr(other, name)
        if (one is None) != (two is None):
            raise PackError(f"{where}one has {name}, the other has none.")
        if one is not None and one.shape[1:] != two.shape[1:]:
            raise PackError(
                f"{where}{name} is {list(one.shape[1:])} per image in one, {list(two.shape[1:])} in the other."
            )


def _short(value: Any) -> str:
    return f"{value!r:.40}"


def shift_half(pack: FeaturePack, seed: int, length: float) -> tuple[FeaturePack, Ints]:
    """Move a random half of the images by one common offset, which makes them a second domain.

    In each space the offset has a random direction and the given length. All views of an image move alike, and a
    moved feature is normalised again. The offset is nearer to some class texts than to others, so zero-shot
    accuracy falls as the offset grows.

    Returns:
        The pack with `domains`, and the domains [N].
    """
    rng = np.random.default_rng([seed, 2])  # independent of the numbers of the order and of random auxiliaries
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


def refuse_same_names(packs: Mapping[str, FeaturePack]) -> None:
    """Raise an InputError if two packs have the same name: their runs could not be distinguished.

    Args:
        packs: The packs, by folder.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(images=20)
        >>> try:
        ...     refuse_same_names({"a": pack, "b": pack})
        ... except InputError as error:
        ...     print(str(error).split(",")[0])
        the packs 'a' and 'b' have the same name
    """
    first: dict[str, str] = {}
    for folder, pack in packs.items():
        other = first.setdefault(pack.name, folder)
        if other != folder:
            raise InputError(
                f"the packs {other!r} and {folder!r} have the same name, {pack.name!r}, so their runs cannot be "
                'distinguished; edit "name" in the pack.json of one of them.'
            )
