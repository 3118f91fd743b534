"""Saves the state of a method to one safetensors file with a JSON header, and loads it.

A file is loaded into a state that the method has just made, so the name, type and shape of every array is known
beforehand. There is no pickle: a file never runs code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from cosmic_tta.core.errors import InputError, SnapshotError, StorageError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import values
from cosmic_tta.core.state_tree import arrays_digest, check_arrays, fill, state_arrays, state_digest
from cosmic_tta.core.types import State, Task

FORMAT = 5
MAX_NAMED_PARAMETERS = 3  # in the error for a state of other parameters
S = TypeVar("S", bound=State)


def describe(method: Method[Any], state: State) -> dict[str, Any]:
    """Return the header of a state's file: everything that must be equal where it is loaded."""
    task = state.task
    support, checkpoint = getattr(method, "support", None), getattr(method, "checkpoint", None)
    return {
        "format": FORMAT,
        "method": method.name,
        "params": values(method),
        "support": None if support is None else support.digest,
        "checkpoint": None if checkpoint is None else checkpoint.digest,
        "class_names": list(task.class_names),
        "text": task.text_digest,
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
        "aux_dim": task.aux_dim,
        "digest": state_digest(state),
    }


def save(file: str | os.PathLike[str], method: Method[S], state: S) -> None:
    """Write the state of a method to a file. If that fails, the file that was there before stays.

    Args:
        file: path of the file.
        method: the method that made the state.
        state: the state.

    Raises:
        InputError: another method, or other parameters, made the state.
        SnapshotError: the disk refused.

    Examples:
        >>> import tempfile
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import load, save
        >>> pack, method = superclass_pack(0, images=20, views=1, dim=8), make_method("tda")
        >>> state = method.init(pack.task())
        >>> _ = method.step(state, pack.sample(0))
        >>> file = tempfile.mkdtemp() + "/state.safetensors"
        >>> save(file, method, state)
        >>> load(file, method, pack.task()).seen
        1
    """
    from safetensors.numpy import save as to_bytes

    method.check_state(state)
    path = Path(file)
    header = {"cosmic_tta": json.dumps(describe(method, state), ensure_ascii=False)}
    content = to_bytes(state_arrays(state), header)
    try:
        write_atomic(path, content)
    except StorageError as error:
        raise SnapshotError(str(error)) from error


def load(file: str | os.PathLike[str], method: Method[S], task: Task) -> S:
    """Load a state that `save` wrote.

    Args:
        file: path of the file.
        method: must have the same parameters as the method that was saved.
        task: must have the same classes, texts and encoders.

    Returns:
        The state.

    Raises:
        SnapshotError: the file is missing, damaged, of another format, or of another method or task. The message
            says what differs.

    Examples:
        >>> import tempfile
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import load, save
        >>> task, file = superclass_pack(0, images=20, views=1, dim=8).task(), tempfile.mkdtemp() + "/state"
        >>> save(file, make_method("tda"), make_method("tda").init(task))
        >>> load(file, make_method("tda", shots=5), task)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        cosmic_tta.core.errors.SnapshotError: ...shots is 3 there, 5 here.
    """
    header, arrays = _read(Path(file))
    try:
        if header["aux_dim"] is not None and task.aux_dim is None:
            task = replace(task, aux_dim=header["aux_dim"])  # the first sample set it
        state = method.init(task)
    except (MemoryError, InputError) as error:
        raise SnapshotError(f"{str(file)!r} cannot be loaded: {error}") from error
    refuse_differences(f"{str(file)!r}", header, describe(method, state))
    check_arrays(file, arrays, state)
    if arrays_digest(arrays) != header["digest"]:
        raise SnapshotError(f"{str(file)!r} is damaged: its contents do not match their checksum.")
    fill(file, state, arrays)
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
        found = header.get("format") if isinstance(header, dict) else None
        raise SnapshotError(f"{str(path)!r} has state format {found!r}; this version reads format {FORMAT}.")
    valid = (
        isinstance(header.get("digest"), str)
        and type(header.get("aux_dim")) in (int, type(None))
        and isinstance(header.get("class_names"), list)
        and all(isinstance(name, str) for name in header["class_names"])
    )
    if not valid:
        raise SnapshotError(f"{str(path)!r} is damaged: its header is invalid.")
    return header, arrays


def refuse_differences(name: str, stored: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a file of another method, other parameters, classes, texts or encoders; `name` is for the error."""
    if stored.get("method") != expected["method"]:  # then its parameters are others too
        raise SnapshotError(
            f"{name} belongs to something else: method is {stored.get('method')!r} there, {expected['method']!r} here."
        )
    opaque = {"text": "its class texts differ", "support": "its support set differs"}
    differences: list[str] = []
    for key, value in expected.items():
        if key == "digest" or stored.get(key) == value:
            continue
        if key == "params" and isinstance(stored.get(key), dict):
            differences += _parameter_differences(stored[key], value)
        elif key in opaque:
            differences.append(opaque[key])
        elif key == "class_names" and isinstance(stored.get(key), list):
            differences.append(_class_difference(stored[key], value))
        else:
            differences.append(f"{key} is {stored.get(key)!r} there, {value!r} here")
    if differences:
        raise SnapshotError(f"{name} belongs to something else: {'; '.join(differences)}.")


def _parameter_differences(stored: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    changed = [k for k in {**expected, **stored} if expected.get(k) != stored.get(k)]
    named = changed[:MAX_NAMED_PARAMETERS]
    differences = [f"{k} is {stored.get(k)!r} there, {expected.get(k)!r} here" for k in named]
    more = len(changed) - len(named)
    return [*differences, *([f"and {more} more parameter{'s' * (more > 1)}"] if more else [])]


def _class_difference(stored: list[str], expected: list[str]) -> str:
    removed, added = [n for n in stored if n not in expected], [n for n in expected if n not in stored]
    if not removed and not added:
        return "its classes are in another order"
    parts = [f"only there: {', '.join(removed[:5])}"] if removed else []
    parts += [f"only here: {', '.join(added[:5])}"] if added else []
    return f"its classes differ ({'; '.join(parts)})"
