"""What was learned, carried over to other classes by their names. What each method does for it is with the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cosmic_tta.core import Method, State, Task
from cosmic_tta.errors import InputError
from cosmic_tta.ops import Ints


def carry(method: Method[Any], state: State, task: Task, names: Mapping[str, str]) -> State:
    """Return the state for a new task; `names` tells under which name each old class goes on, the others are gone."""
    return carry_both(method, state, task, names)[1]


def carry_both(method: Method[Any], state: State, task: Task, names: Mapping[str, str]) -> tuple[Method[Any], State]:
    """Return the method and the state for a new task: a method with a support of labelled features changes, too."""
    return method.carry(state, task, places(state.task, task, names))


def places(before: Task, task: Task, names: Mapping[str, str]) -> Ints:
    """Return for each class of the new task which one of the old it was, -1 for a new one."""
    old = {name: place for place, name in enumerate(before.class_names)}
    new = {name: place for place, name in enumerate(task.class_names)}
    found = np.full(task.classes, -1, np.int64)
    for one, other in names.items():
        if one not in old:
            raise InputError(f"{one!r} is none of the classes that go on; they are {_some(before.class_names)}.")
        if other not in new:
            raise InputError(f"{one!r} should go on as {other!r}, which is no class of the new task.")
        if found[new[other]] >= 0:
            raise InputError(f"two classes should go on as {other!r}; only one can.")
        found[new[other]] = old[one]
    return found


def kept_names(before: Task, task: Task, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return under which name each old class goes on: as told, or under its own where that is still a class."""
    for old in renamed:
        if old not in before.class_names:
            raise InputError(f"cannot rename {old!r}: it is none of the classes, {_some(before.class_names)}.")
    taken = set(renamed.values())
    names = dict(renamed)
    for name in before.class_names:
        if name not in renamed and name in task.class_names:
            if name in taken:
                raise InputError(f"a class cannot be renamed to {name!r}: that is another class, which stays.")
            names[name] = name
    return names


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
