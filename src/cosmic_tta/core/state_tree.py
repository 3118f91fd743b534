"""A state as named arrays: a tree of dataclasses whose leaves are arrays and numbers. The task is left out.

Metadata of a field says how a saved array is checked: see `DERIVED`, `SAMPLE_INDEX` and `MAY_BE_INFINITE` in
`core.types`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import State, Task


class Leaf(NamedTuple):
    """An array or number of a state: its dotted name, its value, the metadata of its field."""

    name: str
    value: Any
    metadata: Mapping[str, Any]


def _leaves(state: Any, prefix: str = "") -> Iterator[Leaf]:
    for part in fields(state):
        if part.metadata.get("derived"):
            continue
        value, name = getattr(state, part.name), prefix + part.name
        if is_dataclass(value) and not isinstance(value, Task):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, (np.ndarray, int, float)):
            yield Leaf(name, value, part.metadata)
        elif not (value is None or isinstance(value, Task) or name == "made_by"):
            kind = type(value).__name__
            raise TypeError(f"a state holds arrays, numbers and dataclasses of them; {name} is a {kind}")


def leaves(state: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of a state with their dotted names. Fields that are None are left out."""
    for leaf in _leaves(state):
        yield leaf.name, leaf.value


def state_arrays(state: Any) -> dict[str, NDArray[Any]]:
    """Return the leaves of a state as arrays; a number becomes an array of no dimension."""
    return {name: np.asarray(value, order="C") for name, value in leaves(state)}


def state_bytes(state: State) -> int:
    """Return how many bytes the arrays of a state take."""
    return sum(array.nbytes for array in state_arrays(state).values())


def state_digest(state: Any) -> str:
    """Return a fingerprint of every bit of a state."""
    return arrays_digest(state_arrays(state))


def arrays_digest(arrays: dict[str, NDArray[Any]]) -> str:
    """Return a fingerprint of named arrays: names, types, shapes and every bit."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_arrays(file: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], state: Any) -> None:
    """Raise a SnapshotError for arrays that do not fit an empty state by name, type, shape, or are not finite."""
    expected = {leaf.name: leaf for leaf in _leaves(state)}
    if set(arrays) != set(expected):
        raise SnapshotError(f"{str(file)!r} holds the arrays {sorted(arrays)}; expected {sorted(expected)}.")
    for name, array in arrays.items():
        _check_array(file, array, expected[name])


def fill(file: str | os.PathLike[str], state: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put checked arrays into an empty state, and raise a SnapshotError for contents that no stream leaves behind."""
    _fill(state, arrays)
    for name, value, metadata in _leaves(state):
        if metadata.get("sample_index") and (np.asarray(value) >= state.seen).any():
            raise SnapshotError(f"{str(file)!r} is damaged: {name} speaks of samples that never came.")


def _check_array(file: str | os.PathLike[str], array: NDArray[Any], leaf: Leaf) -> None:
    expected = np.asarray(leaf.value)
    # A dimension that is 0 in an empty state (no hyper-class yet) may have any size later.
    fits = array.ndim == expected.ndim and all(e in (0, a) for a, e in zip(array.shape, expected.shape, strict=True))
    if array.dtype != expected.dtype or not fits:
        raise SnapshotError(
            f"{str(file)!r}: {leaf.name} is {array.dtype} {list(array.shape)}; "
            f"expected {expected.dtype} {list(expected.shape)}."
        )
    if array.dtype.kind == "f" and not leaf.metadata.get("may_be_infinite") and not np.isfinite(array).all():
        raise SnapshotError(f"{str(file)!r} is damaged: {leaf.name} has NaN or infinity.")


def _fill(state: Any, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
    for part in fields(state):
        if part.metadata.get("derived"):
            if part.default_factory is not MISSING:  # it was derived from the arrays of before
                object.__setattr__(state, part.name, part.default_factory())
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
