"""State ⇄ one safe file: safetensors with a JSON header, versioned, atomic, checked array by array.

A file is loaded into a state that the method has just made, so every array's name, type and shape is known
beforehand. There is no pickle: nothing in a file is ever run.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Method, State, Task
from cosmic_tta.errors import InputError, SnapshotError
from cosmic_tta.parameters import values
from cosmic_tta.state import arrays_digest, state_arrays, state_digest

FORMAT = 3
S = TypeVar("S", bound=State)


def _header(method: Method[Any], state: State) -> dict[str, Any]:
    task = state.task
    support = getattr(method, "support", None)
    return {
        "format": FORMAT,
        "method": method.name,
        "params": values(method),
        "support": None if support is None else support.digest,
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
    header = {"cosmic_tta": json.dumps(_header(method, state), ensure_ascii=False)}
    content = to_bytes(state_arrays(state), header)
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}.unfinished")
    try:
        with open(unfinished, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise SnapshotError(f"cannot write {str(path)!r}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system knows how."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load(file: str | os.PathLike[str], method: Method[S], task: Task) -> S:
    """Read a state that `save` wrote for this method and this task; anything else is refused with what differs."""
    header, arrays = _read(Path(file))
    try:
        if header["aux_dim"] is not None and task.aux_dim is None:
            task = replace(task, aux_dim=header["aux_dim"])  # the first sample told it
        state = method.init(task)
    except (MemoryError, InputError) as error:
        raise SnapshotError(f"{str(file)!r} cannot be loaded: {error}") from error
    _refuse_differences(file, header, _header(method, state))
    expected = state_arrays(state)
    if set(arrays) != set(expected):
        raise SnapshotError(f"{str(file)!r} holds the arrays {sorted(arrays)}; expected {sorted(expected)}.")
    for name, array in arrays.items():
        _check_array(file, name, array, expected[name])
    if arrays_digest(arrays) != header["digest"]:
        raise SnapshotError(f"{str(file)!r} is damaged: its contents do not match their checksum.")
    _fill(state, arrays)
    for name, array in arrays.items():
        if name.endswith(".sample") and (array >= state.seen).any():
            raise SnapshotError(f"{str(file)!r} is damaged: {name} speaks of samples that never came.")
    return state


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


def _refuse_differences(file: str | os.PathLike[str], stored: dict[str, Any], wanted: dict[str, Any]) -> None:
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
        raise SnapshotError(f"{str(file)!r} belongs to something else: {'; '.join(differ)}.")


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


def _fill(state: Any, arrays: dict[str, NDArray[Any]], prefix: str = "") -> None:
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
