"""The end of an extraction: the pack is written without the images that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import files
from cosmic_tta.core.errors import PackError
from cosmic_tta.features.extraction.plan import ExtractionRequest
from cosmic_tta.features.extraction.resume import PartialPack
from cosmic_tta.features.pack import FeaturePack

BLOCK = 1024  # images copied at once
LEFT_OUT = "left out"  # key of the provenance: images that failed, with their problems


def write_pack(path: Path, partial: PartialPack, request: ExtractionRequest, text: NDArray[np.float32]) -> None:
    """Write the pack inside the partial folder, then move it to its folder."""
    staging = partial.folder / "whole"
    files.remove_folder(staging)  # left by a run that was stopped here
    staging.mkdir()
    dataset = request.dataset
    kept = [position for position in range(len(dataset)) if position not in partial.failed]
    items = [dataset.items[position] for position in kept]
    labels = [item.label for item in items]
    arrays: dict[str, NDArray[Any]] = dict(partial.arrays)
    if len(kept) < len(dataset):
        arrays = {name: _copy_rows(array, kept, staging / f"{name}.npy") for name, array in arrays.items()}
    FeaturePack(
        name=dataset.name,
        class_names=dataset.class_names,
        clip=arrays["clip"],
        text=text.astype(request.store),
        aux=arrays.get("aux"),
        labels=None if None in labels else np.array(labels, np.int64),
        logit_scale=request.clip.logit_scale,
        clip_model=request.clip.name,
        aux_model="" if request.aux is None else request.aux.name,
        prompts=" | ".join(dataset.templates),
        source=dataset.source,
        licence=dataset.licence,
        keys=tuple(item.key for item in items),
        provenance=dict(request.settings) | {LEFT_OUT: failed_keys(partial, request)},
    ).write(staging / path.name)
    files.move(staging / path.name, path)


def failed_keys(partial: PartialPack, request: ExtractionRequest) -> dict[str, str]:
    """Return the keys of the images that failed with their problems, in the order of the data set."""
    items = request.dataset.items
    return {items[position].key: problem for position, problem in sorted(partial.failed.items())}


def finish_interrupted(path: Path, settings: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
    """Finish a run that was stopped after its pack was written and before its partial folder was removed.

    Returns:
        The number of images in the pack, and the images that failed with their problems.

    Raises:
        PackError: The pack was made by another run.
    """
    if not PartialPack.is_leftover(path, settings):
        raise pack_exists(path)
    pack = FeaturePack.open(path)
    failed = dict(pack.provenance.get(LEFT_OUT, {}))
    if pack.provenance != dict(settings) | {LEFT_OUT: failed}:
        raise pack_exists(path)
    PartialPack.remove(path)
    return len(pack), failed


def pack_exists(path: Path) -> PackError:
    """Build the error for a pack that would be written over."""
    return PackError(f"{str(path)!r} is there already; remove it or choose another folder.")


def _copy_rows(array: NDArray[Any], kept: Sequence[int], file: Path) -> NDArray[Any]:
    """Copy some rows of an array to a file, in blocks: all of them may not fit into memory."""
    header = np.lib.format.header_data_from_array_1_0(array) | {"shape": (len(kept), *array.shape[1:])}
    with open(file, "wb") as target:
        np.lib.format.write_array_header_1_0(target, header)
        for start in range(0, len(kept), BLOCK):
            target.write(array[kept[start : start + BLOCK]].tobytes())
    copied: NDArray[Any] = np.load(file, mmap_mode="r")
    return copied
