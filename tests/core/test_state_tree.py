from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from cosmic_tta import METHODS, State, Task, make_method
from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.state_tree import (
    arrays_digest,
    check_arrays,
    fill,
    leaves,
    state_arrays,
    state_bytes,
    state_digest,
)
from cosmic_tta.core.types import DERIVED, MAY_BE_INFINITE, SAMPLE_INDEX
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.sessions import session_file
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.state_file import load, save

TASK = Task(("a", "b"), np.eye(2, dtype=np.float32))


@dataclass
class Part:
    arrived: Ints = field(metadata=SAMPLE_INDEX)
    doubt: Array = field(metadata=MAY_BE_INFINITE)
    level: Array

    def validate(self) -> None:
        if (self.level < 0).any():
            raise SnapshotError("a level is negative; the file is damaged.")


@dataclass
class TreeState(State):
    part: Part
    weight: float
    none: Array | None = None
    cached: object = field(default=None, metadata=DERIVED)


def tree(seen: int = 3) -> TreeState:
    part = Part(np.array([0, -1]), np.array([1, np.inf], np.float32), np.array([1, 2], np.float32))
    return TreeState(TASK, seen, part, weight=0.5, cached=object())


def test_a_state_is_a_tree_of_named_arrays() -> None:
    state = tree()
    assert [name for name, _ in leaves(state)] == ["seen", "part.arrived", "part.doubt", "part.level", "weight"]
    assert state_arrays(state)["weight"].shape == ()
    assert state_bytes(state) == 8 + 16 + 8 + 8 + 8
    assert state_digest(state) == state_digest(tree())
    assert state_digest(state) != state_digest(tree(seen=4))
    assert arrays_digest({"a": np.zeros(2)}) != arrays_digest({"b": np.zeros(2)})
    state.cached, state.none = None, {}  # type: ignore[assignment]
    with pytest.raises(TypeError, match="none is a dict"):
        state_digest(state)


def test_saved_arrays_fill_an_empty_state() -> None:
    arrays, empty = state_arrays(tree(7)), tree(0)
    check_arrays("file", arrays, empty)
    fill("file", empty, arrays)
    assert (empty.seen, empty.weight) == (7, 0.5)
    assert state_digest(empty) == state_digest(tree(7))


def checked_and_filled(arrays: dict[str, Any], empty: TreeState) -> None:
    check_arrays("file", arrays, empty)
    fill("file", empty, arrays)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("part.arrived", np.array([0, 3]), "part.arrived speaks of samples that never came"),
        ("part.level", np.array([1, np.inf], np.float32), "part.level has NaN or infinity"),
        ("weight", np.array(np.nan), "weight has NaN or infinity"),
        ("part.level", np.array([1, -1], np.float32), "a level is negative"),
        ("part.level", np.zeros(3, np.float32), r"part.level is float32 \[3\]; expected float32 \[2\]"),
        ("part.level", np.zeros(2), r"part.level is float64 \[2\]; expected float32 \[2\]"),
        ("extra", np.zeros(2), "holds the arrays .*extra.* expected"),
    ],
)
def test_field_metadata_decides_how_an_array_is_checked(name: str, value: Any, said: str) -> None:
    arrays, empty = {**state_arrays(tree()), name: value}, tree(0)
    with pytest.raises(SnapshotError, match=said):
        checked_and_filled(arrays, empty)


@pytest.mark.parametrize("spec", ["tda", "dmn", "cosmic", "cosmic@official"])
def test_every_cache_of_every_method_has_its_checks(spec: str, pack: FeaturePack, tmp_path: Path) -> None:
    """A file with a valid checksum and impossible contents is refused, cache by cache."""
    method = make_method(spec)
    state = method.init(pack.task())
    method.steps(state, [pack.sample(index) for index in range(40)])
    file = tmp_path / "state.safetensors"
    save(file, method, state)
    with safe_open(file, framework="numpy") as stored:
        good = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        header = json.loads(stored.metadata()["cosmic_tta"])
    samples = [name for name in good if name.endswith(".sample")]
    assert samples
    for name in samples:
        for changed, value, said in (
            (name, 40, "speaks of samples that never came"),
            (name.replace(".sample", ".entropy"), np.nan, "contradicts itself"),
            (name.replace(".sample", ".slots"), np.inf, "has NaN or infinity"),
        ):
            arrays = {key: array.copy() for key, array in good.items()}
            arrays[changed][tuple(np.argwhere(good[name] >= 0)[0])] = value
            save_file(arrays, file, {"cosmic_tta": json.dumps({**header, "digest": arrays_digest(arrays)})})
            with pytest.raises(SnapshotError, match=said):
                load(file, method, pack.task())


def test_parameters_that_size_a_state_are_marked() -> None:
    """So that a small session file cannot ask for much memory."""
    sizing = {
        name: {key for key, part in kind.__dataclass_fields__.items() if part.metadata.get("sizes_state")}
        for name, kind in METHODS.items()
    }
    assert sizing["cosmic"] == {"shots", "aux_shots"}
    assert sizing["tda"] == {"shots", "negative_shots"}
    assert sizing["dmn"] == {"shots"}
    assert sizing["bayes_means"] == {"window"}
    assert sizing["zero_shot"] == set()


@pytest.mark.parametrize(("spec", "name"), [("tda", "shots"), ("cosmic", "aux_shots"), ("bayes_means", "window")])
def test_a_session_file_that_asks_for_much_and_holds_little_is_refused(
    spec: str, name: str, pack: FeaturePack, tmp_path: Path
) -> None:
    Session.create(tmp_path / "s", "s", pack.task(), make_method(spec)).close()
    path = session_file.snapshot_path(tmp_path / "s", 0)
    content = path.read_bytes()
    with safe_open(path, framework="numpy") as stored:
        arrays = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
        metadata = dict(stored.metadata())
    (key,) = (key for key in metadata if key != "digest")
    metadata[key] = re.sub(rf'"{name}": \d+', f'"{name}": 900000', metadata[key])
    metadata["digest"] = session_file.digest(metadata[key], arrays)
    save_file(arrays, path, metadata)
    with pytest.raises(SnapshotError, match="asks for .* MB but holds"):
        session_file.read(path)
    path.write_bytes(content)
    session_file.read(path)
