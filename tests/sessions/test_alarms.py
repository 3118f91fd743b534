from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import Sample, Task, ZeroShot
from cosmic_tta.core.arrays import Array, Ints, as_float32, softmax, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import Prediction
from cosmic_tta.sessions.alarms import AlarmPolicy, AlarmState

pytestmark = pytest.mark.pathless

CLASSES, WIDTH = 10, 64


def domain(seed: int) -> tuple[Array, Array]:
    """Class centres, and an offset of another domain."""
    rng = np.random.default_rng(seed)
    return unit(as_float32(rng.standard_normal((CLASSES, WIDTH)))), as_float32(0.1 * rng.standard_normal(WIDTH))


def images(centres: Array, kinds: Ints, offset: Array | float, seed: int) -> list[Sample]:
    noise = 0.08 * np.random.default_rng(seed).standard_normal((len(kinds), WIDTH))
    return [Sample(row[None]) for row in unit(as_float32(centres[kinds] + offset + noise))]


def watch(samples: list[Sample], task: Task) -> tuple[AlarmPolicy, AlarmState, list[int]]:
    method, policy = ZeroShot(), AlarmPolicy()
    state, alarm_state, since = method.init(task), policy.init(task.classes, task.dim), []
    for sample in samples:
        policy.update(alarm_state, sample, method.step(state, sample))
        since.append(alarm_state.drift_since)
    return policy, alarm_state, since


@pytest.mark.parametrize("seed", range(5))
def test_another_domain_raises_the_alarm_and_the_same_one_does_not(seed: int) -> None:
    centres, offset = domain(seed)
    task = Task(tuple("abcdefghij"), centres)
    kinds = np.random.default_rng(seed + 100).integers(0, CLASSES, 3000)
    before = images(centres, kinds[:600], 0.0, seed)
    _, alarm_state, since = watch(before + images(centres, kinds[600:], offset, seed + 1), task)
    assert not any(since[:600])
    assert any(since[600:800])
    assert alarm_state.drift_since == 0  # the centres have followed: the new domain is the usual one now
    _, _, since = watch(before + images(centres, kinds[600:], 0.0, seed + 1), task)
    assert not any(since)


def test_other_classes_are_no_drift() -> None:
    """First half of the classes, then the other half, then all: the mix changes, the domain does not."""
    centres, _ = domain(0)
    rng = np.random.default_rng(1)
    kinds = np.concatenate([rng.integers(0, 5, 300), rng.integers(5, 10, 300), rng.integers(0, 10, 300)])
    assert not any(watch(images(centres, kinds, 0.0, 2), Task(tuple("abcdefghij"), centres))[2])


def test_the_alarm_describes_its_signal() -> None:
    centres, offset = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    kinds = np.random.default_rng(3).integers(0, CLASSES, 480)
    policy, alarm_state, _ = watch(
        images(centres, kinds[:400], 0.0, 0) + images(centres, kinds[400:], 3 * offset, 1), task
    )
    (alarm,) = policy.alarms(alarm_state, task.class_names)
    assert alarm.kind == "drift"
    assert 400 < alarm.since <= 480
    assert "common to all classes" in alarm.detail


def test_answers_that_collapse_raise_the_alarm() -> None:
    centres, _ = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    samples = images(centres, np.random.default_rng(3).integers(0, CLASSES, 300), 0.0, 0)
    method, policy = ZeroShot(), AlarmPolicy()
    state, alarm_state = method.init(task), policy.init(task.classes, task.dim)
    stuck = softmax(as_float32(np.eye(CLASSES)[4] * 20))
    for number, sample in enumerate(samples):
        prediction = method.step(state, sample)
        policy.update(alarm_state, sample, prediction if number < 100 else Prediction(stuck, prediction.parts))
        assert not (alarm_state.collapse_since and number < 100)
    (alarm,) = policy.alarms(alarm_state, task.class_names)
    assert alarm.kind == "collapse"
    assert 100 < alarm.since <= 200
    assert "mostly 'e'" in alarm.detail
    assert policy.signals(alarm_state).variety < 0.3


def test_nothing_seen_is_no_alarm_and_damage_is_refused() -> None:
    centres, _ = domain(0)
    task = Task(tuple("abcdefghij"), centres)
    policy = AlarmPolicy()
    alarm_state = policy.init(task.classes, task.dim)
    assert policy.alarms(alarm_state, task.class_names) == []
    assert policy.signals(alarm_state) == (0.0, 1.0, 1.0, 0.0)
    alarm_state.answers[0] = 99
    with pytest.raises(SnapshotError, match="damaged"):
        alarm_state.validate()
