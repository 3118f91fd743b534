from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import Sample, Task, ZeroShot
from cosmic_tta.alarms import Watch, Watched
from cosmic_tta.core import Prediction
from cosmic_tta.errors import SnapshotError
from cosmic_tta.ops import Array, Ints, as_float32, softmax, unit

pytestmark = pytest.mark.pathless

CLASSES, WIDTH = 10, 64


def domain(seed: int) -> tuple[Array, Array]:
    """Class centres, and an offset of another domain."""
    rng = np.random.default_rng(seed)
    return unit(as_float32(rng.standard_normal((CLASSES, WIDTH)))), as_float32(0.1 * rng.standard_normal(WIDTH))


def pictures(centres: Array, kinds: Ints, offset: Array | float, seed: int) -> list[Sample]:
    noise = 0.08 * np.random.default_rng(seed).standard_normal((len(kinds), WIDTH))
    return [Sample(row[None]) for row in unit(as_float32(centres[kinds] + offset + noise))]


def watch(samples: list[Sample], task: Task) -> tuple[Watch, Watched, list[int]]:
    method, eye = ZeroShot(), Watch()
    state, watched, fired = method.init(task), eye.init(task.classes, task.dim), []
    for sample in samples:
        eye.see(watched, sample, method.step(state, sample))
        fired.append(watched.drifted)
    return eye, watched, fired


@pytest.mark.parametrize("seed", range(5))
def test_another_domain_raises_the_alarm_and_the_same_one_does_not(seed: int) -> None:
    centres, offset = domain(seed)
    task = Task(tuple("abcdefghij"), centres)
    kinds = np.random.default_rng(seed + 100).integers(0, CLASSES, 3000)
    before = pictures(centres, kinds[:600], 0.0, seed)
    _, watched, fired = watch(before + pictures(centres, kinds[600:], offset, seed + 1), task)
    assert not any(fired[:600])
    assert any(fired[600:800])
    assert watched.drifted == 0  # the centres have followed: the new domain is the usual one now
    _, _, fired = watch(before + pictures(centres, kinds[600:], 0.0, seed + 1), task)
    assert not any(fired)


def test_other_classes_are_no_drift() -> None:
    """First half of the classes, then the other half, then all: the mix changes, the domain does not."""
    centres, _ = domain(0)
    rng = np.random.default_rng(1)
    kinds = np.concatenate([rng.integers(0, 5, 300), rng.integers(5, 10, 300), rng.integers(0, 10, 300)])
    assert not any(watch(pictures(centres, kinds, 0.0, 2), Task(tuple("abcdefghij"), centres))[2])


def test_the_alarm_says_what_it_saw() -> None:
    centres, offset = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    kinds = np.random.default_rng(3).integers(0, CLASSES, 480)
    eye, watched, _ = watch(
        pictures(centres, kinds[:400], 0.0, 0) + pictures(centres, kinds[400:], 3 * offset, 1), task
    )
    (alarm,) = eye.alarms(watched, task.class_names)
    assert alarm.kind == "drift"
    assert 400 < alarm.since <= 480
    assert "common to all classes" in alarm.detail


def test_answers_that_collapse_raise_the_alarm() -> None:
    centres, _ = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    samples = pictures(centres, np.random.default_rng(3).integers(0, CLASSES, 300), 0.0, 0)
    method, eye = ZeroShot(), Watch()
    state, watched = method.init(task), eye.init(task.classes, task.dim)
    stuck = softmax(as_float32(np.eye(CLASSES)[4] * 20))
    for number, sample in enumerate(samples):
        sound = method.step(state, sample)
        eye.see(watched, sample, sound if number < 100 else Prediction(stuck, sound.parts))
        assert not (watched.collapsed and number < 100)
    (alarm,) = eye.alarms(watched, task.class_names)
    assert alarm.kind == "collapse"
    assert 100 < alarm.since <= 200
    assert "mostly 'e'" in alarm.detail
    assert eye.signals(watched).variety < 0.3


def test_nothing_seen_is_no_alarm_and_damage_is_refused() -> None:
    centres, _ = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    eye = Watch()
    watched = eye.init(task.classes, task.dim)
    assert eye.alarms(watched, task.class_names) == []
    assert eye.signals(watched) == (0.0, 1.0, 1.0, 0.0)
    watched.answer[0] = 99
    with pytest.raises(SnapshotError, match="damaged"):
        watched.validate()
