"""Maps the classes of one task to those of another by name. How a state follows is up to its method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Ints
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import State, Task


def remap_state(method: Method[Any], state: State, task: Task, names: Mapping[str, str]) -> tuple[Method[Any], State]:
    """Return method and state for another task; `names` has the new name of each old class that stays.

    The method changes too if it holds labelled features.
    """
    return method.remap_classes(state, task, class_map(state.task, task, names))


def class_map(before: Task, task: Task, names: Mapping[str, str]) -> Ints:
    """Return for each class of the new task its index among the old ones, -1 for a new class."""
    old_index = {name: index for index, name in enumerate(before.class_names)}
    new_index = {name: index for index, name in enumerate(task.class_names)}
    found = np.full(task.classes, -1, np.int64)
    for old, new in names.items():
        if old not in old_index:
            raise InputError(f"{old!r} is none of the classes; they are {_some(before.class_names)}.")
        if new not in new_index:
            raise InputError(f"{old!r} should become {new!r}, which is no class of the new task.")
        if found[new_index[new]] >= 0:
            raise InputError(f"two classes should become {new!r}; only one can.")
        found[new_index[new]] = old_index[old]
    return found


def surviving_names(before: Task, task: Task, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the new name of each old class that stays: as renamed, or its own if the new task still has it."""
    for old in renamed:
        if old not in before.class_names:
            raise InputError(f"cannot rename {old!r}: the classes are {_some(before.class_names)}.")
    taken = set(renamed.values())
    names = dict(renamed)
    for name in before.class_names:
        if name not in renamed and name in task.class_names:
            if name in taken:
                raise InputError(f"cannot rename a class to {name!r}: that is another class, which stays.")
            names[name] = name
    return names


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
