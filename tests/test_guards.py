from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import BayesMeans, Cosmic, Method, Sample, Task
from cosmic_tta.errors import ParameterError, SnapshotError
from cosmic_tta.guards import ACTIVE, Guard, guarded_step, guarded_steps, source_number
from cosmic_tta.ops import as_float32, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.state import state_digest


@pytest.mark.parametrize("method", [Cosmic(), BayesMeans()], ids=lambda method: method.name)
def test_one_picture_a_thousand_times_takes_one_place(pack: FeaturePack, method: Method[Any]) -> None:
    guard, task = Guard(), pack.task()
    state, remembered = method.init(task), guard.init(task)
    for index in range(20):
        guarded_step(method, state, guard, remembered, pack.sample(index))
    before, seen = state_digest(state), state.seen
    for _ in range(1000):
        assert guarded_step(method, state, guard, remembered, pack.sample(7)).reason == "duplicate"
    assert (state_digest(state), state.seen) == (before, seen)


def test_a_picture_that_keeps_coming_is_never_forgotten(pack: FeaturePack) -> None:
    guard, task = Guard(places=1), pack.task()
    remembered = guard.init(task)
    assert guard.judge(remembered, task, pack.sample(0)) == ""
    for index in range(1, len(pack)):
        guard.judge(remembered, task, pack.sample(index))
        assert guard.judge(remembered, task, pack.sample(0)) == "duplicate"
    others = sum(guard.judge(remembered, task, pack.sample(index)) == "duplicate" for index in range(1, len(pack)))
    assert others < len(pack) / 2  # the others had to go: there was no place


def test_a_picture_is_the_same_if_it_is_so_in_both_spaces(pack: FeaturePack) -> None:
    guard, task = Guard(), pack.task()
    remembered = guard.init(task)
    one, other = pack.sample(0), pack.sample(1)
    assert guard.judge(remembered, task, one) == ""
    assert guard.judge(remembered, task, Sample(one.clip, other.aux)) == ""
    assert guard.judge(remembered, task, Sample(other.clip, one.aux)) == ""
    assert guard.judge(remembered, task, Sample(one.clip, one.aux)) == "duplicate"


def crowd(count: int, seed: int) -> list[Sample]:
    """Different pictures of one class."""
    rows = np.random.default_rng(seed).standard_normal((count, 16))
    rows[:, 0] += 20
    rows[:, 1:] *= 3
    return [Sample(row[None]) for row in unit(as_float32(rows))]


def test_a_source_has_its_quota_where_others_teach_too() -> None:
    task = Task(("a", "b"), np.eye(2, 16, dtype=np.float32))
    guard = Guard(places=16, quota=0.25)
    alone = guard.init(task)
    assert {guard.judge(alone, task, sample, "camera") for sample in crowd(12, 0)} == {""}
    shared = guard.init(task)
    for sample in crowd(2, 1):
        assert guard.judge(shared, task, sample, "camera") == ""
    reasons = [guard.judge(shared, task, sample, "stranger") for sample in crowd(40, 2)]
    assert reasons == [""] * 4 + ["quota"] * 36
    assert {guard.judge(shared, task, sample) for sample in crowd(5, 3)} == {""}  # who names no source has none


def test_a_source_that_no_longer_comes_holds_nobody_back() -> None:
    task = Task(("a", "b"), np.eye(2, 16, dtype=np.float32))
    guard, pictures = Guard(), crowd(1000, 4)
    memory = guard.init(task)
    reasons = [guard.judge(memory, task, one, "camera") for one in pictures[:200]]
    assert set(reasons) == {""}
    assert guard.judge(memory, task, pictures[200], "page") == ""  # one picture, tried by hand
    after = [guard.judge(memory, task, one, "camera") for one in pictures[201:801]]
    assert after[:250].count("quota") > 200
    assert after[ACTIVE:] == [""] * (600 - ACTIVE)
    replaced = [guard.judge(memory, task, one, "new camera") for one in pictures[801:]]
    assert replaced.count("") > 8
    other = Task(("a", "b"), np.eye(2, 16, dtype=np.float32)[::-1])
    memory = guard.init(task)
    for one, two in zip(crowd(40, 5), crowd(40, 6), strict=True):  # each camera has a class of its own
        turned = Sample(two.clip[:, [1, 0, *range(2, 16)]])
        assert guard.judge(memory, other, one, "left") == guard.judge(memory, other, turned, "right") == ""


def test_a_block_is_judged_as_one_after_the_other(pack: FeaturePack) -> None:
    guard, task, method = Guard(), pack.task(), BayesMeans()
    samples = [pack.sample(index % 13) for index in range(30)]
    one, block = method.init(task), method.init(task)
    first, second = guard.init(task), guard.init(task)
    single = [guarded_step(method, one, guard, first, sample) for sample in samples]
    reasons = [guard.judge(second, task, sample) for sample in samples]
    together = guarded_steps(method, block, reasons, samples)
    assert [judged.reason for judged in single] == [judged.reason for judged in together]
    assert sum(judged.reason == "duplicate" for judged in single) == 17
    for a, b in zip(single, together, strict=True):
        np.testing.assert_array_equal(a.prediction.scores, b.prediction.scores)
    assert state_digest(one) == state_digest(block)


def test_a_bad_sample_is_refused_before_anything_is_remembered(pack: FeaturePack) -> None:
    guard, method = Guard(), BayesMeans()
    state, remembered = method.init(pack.task()), guard.init(pack.task())
    with pytest.raises(Exception, match="wide"):
        guarded_step(method, state, guard, remembered, Sample(np.eye(1, 3, dtype=np.float32)))
    assert remembered.time == 0


@pytest.mark.parametrize(
    ("name", "value"), [("alike", 0.2), ("alike", 2), ("quota", -1), ("places", 0), ("quota", True)]
)
def test_wrong_settings(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"guard: {name} must be from"):
        Guard(**{name: value})


def test_a_memory_that_cannot_be_is_refused(pack: FeaturePack) -> None:
    remembered = Guard().init(pack.task())
    remembered.seen[3] = 5
    with pytest.raises(SnapshotError, match="never came"):
        remembered.validate()


def test_sources_have_numbers() -> None:
    assert source_number(None) == source_number("") == 0
    assert len({source_number(name) for name in ("a", "b", "a ")}) == 3
    assert 0 < source_number("camera 1") < 2**63


@pytest.mark.pathless
def test_poison_costs_the_guarded_less_than_two_points(shared: Path) -> None:
    """Ten in a hundred steps are pictures that zero-shot confidently takes for another class."""
    from cosmic_tta.evaluate import score

    for name in ("whurs19-rn50", "whurs19-vitb32"):
        real = FeaturePack.open(shared / "packs" / name)
        clean, poisoned = (
            np.mean(
                [
                    score(BayesMeans(), real, order=order, seed=seed, guard=Guard(), calibrate=False).report.metrics[
                        "acc1"
                    ]
                    for seed in range(2)
                ]
            )
            for order in ("shuffle", "poisoned:10")
        )
        assert poisoned >= clean - 0.02, name
