from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Task, make_method
from cosmic_tta.core.errors import InputError
from cosmic_tta.sessions.class_mapping import class_map, remap_state, surviving_names
from tests.support.small_session import small_pack, small_samples

pytestmark = pytest.mark.pathless


def task(*names: str) -> Task:
    return Task(names, np.eye(len(names), 8, dtype=np.float32))


def test_each_new_class_has_its_old_index() -> None:
    before, after = task("cat", "dog", "ship"), task("ship", "tree", "puppy")
    names = surviving_names(before, after, {"dog": "puppy"})
    assert names == {"dog": "puppy", "ship": "ship"}
    assert class_map(before, after, names).tolist() == [2, -1, 1]


def test_two_classes_can_swap_their_names() -> None:
    before = task("cat", "dog")
    names = surviving_names(before, before, {"cat": "dog", "dog": "cat"})
    assert class_map(before, before, names).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"bird": "cat"}, "'bird' is none of the classes; they are 'cat', 'dog'"),
        ({"cat": "bird"}, "'cat' should become 'bird', which is no class of the new task"),
        ({"cat": "dog", "dog": "dog"}, "two classes should become 'dog'"),
    ],
)
def test_names_that_contradict_the_tasks_are_refused(names: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        class_map(task("cat", "dog"), task("cat", "dog"), names)


def test_renaming_is_refused_for_unknown_classes_and_taken_names() -> None:
    many = task(*"abcdefgh")
    with pytest.raises(InputError, match="cannot rename 'x': the classes are 'a', 'b'"):
        surviving_names(many, many, {"x": "y"})
    with pytest.raises(InputError, match="cannot rename a class to 'b': that is another class"):
        surviving_names(many, many, {"a": "b"})


def test_a_state_follows_its_classes() -> None:
    method, before = make_method("tda"), small_pack().task()
    state = method.init(before)
    method.steps(state, small_samples()[:20])
    order = [2, 0, 1]
    after = replace(before, class_names=tuple(before.class_names[k] for k in order), text=before.text[order])
    _, remapped = remap_state(method, state, after, surviving_names(before, after, {}))
    assert remapped.task.class_names == after.class_names
    assert remapped.seen == state.seen
