"""Checkpoints as files: safetensors with a JSON header. Nothing in a file is ever executed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core.errors import InputError, SnapshotError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import OBJECTIVES, split_name
from cosmic_tta.methods.components.training import Checkpoint

FORMAT = 2
KEY = "cosmic_tta_checkpoint"


def write(file: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a file, completely or not at all.

    Args:
        file: The file; its name should end in `.safetensors`.
        checkpoint: The result of a training.

    Raises:
        StorageError: The disk refused. A previous file is unchanged.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "coop.safetensors"
        >>> write(file, Checkpoint("coop", {"context": np.zeros((4, 8), np.float32)}, {"seed": 0}))
        >>> read(file).metadata
        {'seed': 0}
    """
    from safetensors.numpy import save

    header = {
        "format": FORMAT,
        "method": checkpoint.method,
        "metadata": dict(checkpoint.metadata),
        "digest": checkpoint.digest,
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in checkpoint.arrays.items()}
    write_atomic(file, save(arrays, {KEY: json.dumps(header, ensure_ascii=False)}))


def read(file: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Args:
        file: A file that `write` or `cosmic train` wrote.

    Returns:
        The checkpoint.

    Raises:
        SnapshotError: There is no such file, it is damaged, or it has another format.

    Examples:
        >>> read("absent.safetensors")
        Traceback (most recent call last):
        cosmic_tta.core.errors.SnapshotError: no checkpoint at 'absent.safetensors'; make one: cosmic train.
    """
    path = Path(file)
    header, arrays = _read_header_and_arrays(path)
    if header.get("format") != FORMAT:
        found = header.get("format")
        raise SnapshotError(f"{str(path)!r} has the format {found!r}; this version reads format {FORMAT}. Train again.")
    try:
        checkpoint = Checkpoint(str(header["method"]), arrays, dict(header["metadata"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _no_checkpoint(path, error) from error
    if checkpoint.method not in OBJECTIVES:
        raise SnapshotError(
            f"{str(path)!r} is a checkpoint of {checkpoint.method!r}; this version trains {', '.join(OBJECTIVES)}."
        )
    valid = all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays.values())
    if header.get("digest") != checkpoint.digest or not valid:
        raise SnapshotError(f"{str(path)!r} is damaged: its contents do not match their checksum.")
    return checkpoint


def _read_header_and_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            return dict(json.loads((stored.metadata() or {})[KEY])), arrays
    except FileNotFoundError as error:
        raise SnapshotError(f"no checkpoint at {str(path)!r}; make one: cosmic train.") from error
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise _no_checkpoint(path, error) from error


def _no_checkpoint(path: Path, error: Exception) -> SnapshotError:
    return SnapshotError(f"{str(path)!r} is no checkpoint of cosmic train, or it is damaged: {error}")


def match_methods(files: Sequence[str | os.PathLike[str]], specs: Sequence[str]) -> dict[str, str]:
    """Return for each method, `name` or `name@preset`, the file of the checkpoint that was trained for it.

    Raises:
        InputError: A checkpoint belongs to none of the methods, or two belong to one.
    """
    matched: dict[str, str] = {}
    for file in (str(Path(name)) for name in files):
        trained_for = read(file).method
        takers = [spec for spec in specs if split_name(spec)[0].name == trained_for]
        if not takers:
            raise InputError(f"{file!r} was trained for {trained_for}, which is not among {', '.join(specs)}.")
        for spec in takers:
            if spec in matched:
                raise InputError(f"two checkpoints are of {trained_for}, {matched[spec]!r} and {file!r}; give one.")
            matched[spec] = file
    return matched


def refuse_own_shots(checkpoint: Checkpoint, pack: FeaturePack) -> None:
    """Raise an InputError for a checkpoint whose shots were drawn from the pack that it is evaluated on."""
    if pack.labels is not None and checkpoint.metadata.get("drawn_from") == pack.support().digest:
        raise InputError(
            f"this checkpoint of {checkpoint.method} was trained on labels of the pack {pack.name!r} itself; evaluate "
            "it on other images."
        )
