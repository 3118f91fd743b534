"""State ⇄ one safe file: safetensors with a JSON header, versioned, atomic, checked array by array.

A file is loaded into a state that the method has just made, so every array's name, type and shape is known
beforehand. There is no pickle: nothing in a file is ever run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Method, State, Task
from cosmic_tta.disk import write_whole
from cosmic_tta.errors import InputError, SnapshotError, StorageError
from cosmic_tta.parameters import values
from cosmic_tta.state import arrays_digest, state_arrays, state_digest

FORMAT = 4
S = TypeVar("S", bound=State)


def describe(method: Method[Any], state: State) -> dict[str, Any]:
    """Return what a state is of, ready for JSON: all that must be the same where it is loaded."""
    task = state.task
    support, learned = getattr(method, "support", None), getattr(method, "checkpoint", None)
    return {
        "format": FORMAT,
        "method": method.name,
        "params": values(method),
        "support": None if support is None else support.digest,
        "checkpoint": None if learned is None else learned.digest,
        "class_names": list(task.class_names),
        "text": task.text_digest,
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
        "aux_dim": task.aux_dim,
        "digest": state_digest(state),
    }


def save(file: str | os.PathLike[str], method: Method[S], state: S) -> None:
    """Write a state; the file is there whole, or the one before it still is."""
    from safetensors.numpy import save as to_bytes

    method.check_state(state)
    path = Path(file)
    header = {"cosmic_tta": json.dumps(describe(method, state), ensure_ascii=False)}
    content = to_bytes(state_arrays(state), header)
    try:
        write_whole(path, content)
    except StorageError as error:
        raise SnapshotError(str(error)) from error


def load(file: str | os.PathLike[str], method: Method[S], task: Task) -> S:
    """Read a state that `save` wrote for this method and this task; anything else is refused with what differs."""
    header, arrays = _read(Path(file))
    try:
        if header["aux_dim"] is not None and task.aux_dim is None:
            task = replace(task, aux_dim=header["aux_dim"])  # the first sample told it
        state = method.init(task)
    except (MemoryError, InputError) as error:
        raise SnapshotError(f"{str(file)!r} cannot be loaded: {error}") from error
    refuse_differences(f"{str(file)!r}", header, describe(method, state))
    check_arrays(file, arrays, state)
    if arrays_digest(arrays) != header["digest"]:
        raise SnapshotError(f"{str(file)!r} is damaged: its contents do not match their checksum.")
    fill(file, state, arrays)
    return state


def check_arrays(file: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], state: Any) -> None:
    """Refuse arrays that are not those of a state just made: by name, type, shape, and numbers that are none."""
    expected = state_arrays(state)
    if set(arrays) != set(expected):
        raise SnapshotError(f"{str(file)!r} holds the arrays {sorted(arrays)}; expected {sorted(expected)}.")
    for name, array in arrays.items():
        _check_array(file, name, array, expected[name])


def fill(file: str | os.PathLike[str], state: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put checked arrays into a state just made, and refuse what no stream can leave behind."""
    _fill(state, arrays)
    for name, array in arrays.items():
        if name.endswith(".sample") and (array >= state.seen).any():
            raise SnapshotError(f"{str(file)!r} is damaged: {name} speaks of samples that never came.")


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            header = json.loads((stored.metadata() or {})["cosmic_tta"])
    except FileNotFoundError as error:
        raise SnapshotError(f"no saved state at {str(path)!r}.") from error
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise SnapshotError(f"{str(path)!r} is no saved state of cosmic-tta, or it is damaged: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        given = header.get("format") if isinstance(header, dict) else None
        raise SnapshotError(f"{str(path)!r} has the format {given!r}; this version reads format {FORMAT}.")
    sound = (
        isinstance(header.get("digest"), str)
        and type(header.get("aux_dim")) in (int, type(None))
        and isinstance(header.get("class_names"), list)
        and all(isinstance(name, str) for name in header["class_names"])
    )
    if not sound:
        raise SnapshotError(f"{str(path)!r} is damaged: its header makes no sense.")
    return header, arrays


def refuse_differences(what: str, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse what was made for another method, other parameters, classes, texts or encoders, naming what differs."""
    names = {"text": "class texts", "support": "support set"}
    differ = []
    for key, value in wanted.items():
        if key == "digest" or stored.get(key) == value:
            continue
        if key == "params" and isinstance(stored.get(key), dict):
            changed = [k for k in {**value, **stored[key]} if value.get(k) != stored[key].get(k)]
            differ += [f"{k} is {stored[key].get(k)!r} there, {value.get(k)!r} here" for k in changed]
        elif key in names:
            differ.append(f"its {names[key]} are not the same")
        elif key == "class_names" and isinstance(stored.get(key), list):
            differ.append(_class_difference(stored[key], value))
        else:
            differ.append(f"{key} is {stored.get(key)!r} there, {value!r} here")
    if differ:
        raise SnapshotError(f"{what} belongs to something else: {'; '.join(differ)}.")


def _class_difference(stored: list[str], wanted: list[str]) -> str:
    gone, new = [n for n in stored if n not in wanted], [n for n in wanted if n not in stored]
    if not gone and not new:
        return "its classes are in another order"
    told = [f"only there: {', '.join(gone[:5])}"] if gone else []
    told += [f"only here: {', '.join(new[:5])}"] if new else []
    return f"its classes differ ({'; '.join(told)})"


def _check_array(file: str | os.PathLike[str], name: str, array: NDArray[Any], expected: NDArray[Any]) -> None:
    # A dimension that is 0 in a fresh state (no hyper-class yet) may have any size later.
    fits = array.ndim == expected.ndim and all(e in (0, a) for a, e in zip(array.shape, expected.shape, strict=True))
    if array.dtype != expected.dtype or not fits:
        raise SnapshotError(
            f"{str(file)!r}: {name} is {array.dtype} {list(array.shape)}; "
            f"expected {expected.dtype} {list(expected.shape)}."
        )
    if array.dtype.kind == "f" and not name.endswith(".entropy") and not np.isfinite(array).all():
        raise SnapshotError(f"{str(file)!r} is damaged: {name} has NaN or infinity.")


def _fill(state: Any, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
    for part in fields(state):
        if part.metadata.get("derived"):
            continue
        value, name = getattr(state, part.name), prefix + part.name
        if is_dataclass(value) and not isinstance(value, Task):
            _fill(value, arrays, f"{name}.")
        elif isinstance(value, np.ndarray):
            object.__setattr__(state, part.name, arrays[name])
        elif isinstance(value, (int, float)):
            object.__setattr__(state, part.name, type(value)(arrays[name]))
    if hasattr(state, "validate"):
        state.validate()
