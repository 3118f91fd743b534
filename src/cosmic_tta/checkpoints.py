"""What a training left behind ⇄ one safe file: safetensors with a JSON header, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from cosmic_tta.errors import InputError, SnapshotError
from cosmic_tta.methods import LESSONS, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import Learned

FORMAT = 1
KEY = "cosmic_tta_checkpoint"


def write(file: str | os.PathLike[str], learned: Learned) -> None:
    """Write a checkpoint; the file is there whole, or the one before it still is."""
    from safetensors.numpy import save

    path = Path(file)
    header = {"format": FORMAT, "method": learned.method, "told": dict(learned.told), "digest": learned.digest}
    arrays = {name: np.ascontiguousarray(array) for name, array in learned.arrays.items()}
    content = save(arrays, {KEY: json.dumps(header, ensure_ascii=False)})
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}.unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def read(file: str | os.PathLike[str]) -> Learned:
    """Read a checkpoint that `write` wrote; nothing in it is ever run."""
    from safetensors import SafetensorError, safe_open

    path = Path(file)
    try:
        with safe_open(path, framework="numpy") as stored:
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            header: Any = json.loads((stored.metadata() or {})[KEY])
            learned = Learned(str(header["method"]), arrays, dict(header["told"]))
            told, digest = header["format"], header["digest"]
    except FileNotFoundError as error:
        raise SnapshotError(f"no checkpoint at {str(path)!r}; make one: cosmic train.") from error
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise SnapshotError(f"{str(path)!r} is no checkpoint of cosmic train, or it is damaged: {error}") from error
    if told != FORMAT or learned.method not in LESSONS:
        raise SnapshotError(
            f"{str(path)!r} has the format {told!r} of {learned.method!r}; this version reads format {FORMAT} of "
            f"{', '.join(LESSONS)}."
        )
    sound = all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays.values())
    if digest != learned.digest or not sound:
        raise SnapshotError(f"{str(path)!r} is damaged: its contents do not match their checksum.")
    return learned


def taken_by(files: Sequence[str | os.PathLike[str]], specs: Sequence[str]) -> dict[str, str]:
    """Give each checkpoint to the methods, `name` or `name@preset`, that it was trained for."""
    given: dict[str, str] = {}
    for file in (str(Path(name)) for name in files):
        trained_for = read(file).method
        takers = [spec for spec in specs if split_name(spec)[0].name == trained_for]
        if not takers:
            raise InputError(f"{file!r} was trained for {trained_for}, which is not among {', '.join(specs)}.")
        for spec in takers:
            if spec in given:
                raise InputError(f"two checkpoints are of {trained_for}, {given[spec]!r} and {file!r}; give one.")
            given[spec] = file
    return given


def refuse_own_shots(learned: Learned, pack: FeaturePack) -> None:
    """Refuse to judge a training on the very pack that its shots were drawn from: the labels were given away."""
    if pack.labels is not None and learned.told.get("drawn from") == pack.support().digest:
        raise InputError(
            f"this checkpoint of {learned.method} was trained on labels of the pack {pack.name!r} itself; evaluate it "
            "on other images."
        )
