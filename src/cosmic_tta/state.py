"""A state as named arrays: a tree of dataclasses whose leaves are arrays and numbers, the task left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import State, Task


def leaves(state: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of a state with their dotted names; absent parts are left out."""
    for part in fields(state):
        if part.metadata.get("derived"):
            continue
        value, name = getattr(state, part.name), prefix + part.name
        if is_dataclass(value) and not isinstance(value, Task):
            yield from leaves(value, f"{name}.")
        elif isinstance(value, (np.ndarray, int, float)):
            yield name, value
        elif not (value is None or isinstance(value, Task) or name == "made_by"):
            kind = type(value).__name__
            raise TypeError(f"a state holds arrays, numbers and dataclasses of them; {name} is a {kind}")


def state_arrays(state: Any) -> dict[str, NDArray[Any]]:
    """Return a state's leaves as arrays, numbers as arrays of no dimension."""
    return {name: np.asarray(value, order="C") for name, value in leaves(state)}


def state_bytes(state: State) -> int:
    """Return how much memory a state's arrays take."""
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
