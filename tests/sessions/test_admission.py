from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import BayesMeans, Cosmic, Method, Sample, Task
from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import ParameterError, SnapshotError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.sessions.admission import ACTIVE_SAMPLES, AdmissionPolicy, guarded_step, guarded_steps, source_number


@pytest.mark.parametrize("method", [Cosmic(), BayesMeans()], ids=lambda method: method.name)
def test_one_image_a_thousand_times_takes_one_slot(pack: FeaturePack, method: Method[Any]) -> None:
    guard, task = AdmissionPolicy(), pack.task()
    state, recent = method.init(task), guard.init(task)
    for index in range(20):
        guarded_step(method, state, guard, recent, pack.sample(index))
    before, seen = state_digest(state), state.seen
    for _ in range(1000):
        assert guarded_step(method, state, guard, recent, pack.sample(7)).reason == "duplicate"
    assert (state_digest(state), state.seen) == (before, seen)


def test_an_image_that_keeps_coming_is_never_forgotten(pack: FeaturePack) -> None:
    guard, task = AdmissionPolicy(slots=1), pack.task()
    recent = guard.init(task)
    assert guard.admit(recent, task, pack.sample(0)) == ""
    for index in range(1, len(pack)):
        guard.admit(recent, task, pack.sample(index))
        assert guard.admit(recent, task, pack.sample(0)) == "duplicate"
    others = sum(guard.admit(recent, task, pack.sample(index)) == "duplicate" for index in range(1, len(pack)))
    assert others < len(pack) / 2  # the others had to go: there was no slot


def test_an_image_is_the_same_if_it_is_so_in_both_spaces(pack: FeaturePack) -> None:
    guard, task = AdmissionPolicy(), pack.task()
    recent = guard.init(task)
    one, other = pack.sample(0), pack.sample(1)
    assert guard.admit(recent, task, one) == ""
    assert guard.admit(recent, task, Sample(one.clip, other.aux)) == ""
    assert guard.admit(recent, task, Sample(other.clip, one.aux)) == ""
    assert guard.admit(recent, task, Sample(one.clip, one.aux)) == "duplicate"


def same_class(count: int, seed: int) -> list[Sample]:
    """Different images of one class."""
    rows = np.random.default_rng(seed).standard_normal((count, 16))
    rows[:, 0] += 20
    rows[:, 1:] *= 3
    return [Sample(row[None]) for row in unit(as_float32(rows))]


def test_a_source_has_a_quota_if_others_send_the_same_class() -> None:
    task = Task(("a", "b"), np.eye(2, 16, dtype=np.float32))
    guard = AdmissionPolicy(slots=16, quota=0.25)
    alone = guard.init(task)
    assert {guard.admit(alone, task, sample, "camera") for sample in same_class(12, 0)} == {""}
    shared = guard.init(task)
    for sample in same_class(2, 1):
        assert guard.admit(shared, task, sample, "camera") == ""
    reasons = [guard.admit(shared, task, sample, "stranger") for sample in same_class(40, 2)]
    assert reasons == [""] * 4 + ["quota"] * 36
    assert {guard.admit(shared, task, sample) for sample in same_class(5, 3)} == {""}  # no source: no quota


def test_an_inactive_source_does_not_limit_the_others() -> None:
    task = Task(("a", "b"), np.eye(2, 16, dtype=np.float32))
    guard, images = AdmissionPolicy(), same_class(1000, 4)
    memory = guard.init(task)
    reasons = [guard.admit(memory, task, one, "camera") for one in images[:200]]
    assert set(reasons) == {""}
    assert guard.admit(memory, task, images[200], "page") == ""  # one image, tried by hand
    after = [guard.admit(memory, task, one, "camera") for one in images[201:801]]
    assert after[:250].count("quota") > 200
    assert after[ACTIVE_SAMPLES:] == [""] * (600 - ACTIVE_SAMPLES)
    replaced = [guard.admit(memory, task, one, "new camera") for one in images[801:]]
    assert replaced.count("") > 8
    other = Task(("a", "b"), np.eye(2, 16, dtype=np.float32)[::-1])
    memory = guard.init(task)
    for one, two in zip(same_class(40, 5), same_class(40, 6), strict=True):  # each camera has a class of its own
        turned = Sample(two.clip[:, [1, 0, *range(2, 16)]])
        assert guard.admit(memory, other, one, "left") == guard.admit(memory, other, turned, "right") == ""


def test_a_block_is_admitted_as_its_samples_one_by_one(pack: FeaturePack) -> None:
    guard, task, method = AdmissionPolicy(), pack.task(), BayesMeans()
    samples = [pack.sample(index % 13) for index in range(30)]
    one, block = method.init(task), method.init(task)
    first, second = guard.init(task), guard.init(task)
    single = [guarded_step(method, one, guard, first, sample) for sample in samples]
    reasons = [guard.admit(second, task, sample) for sample in samples]
    together = guarded_steps(method, block, reasons, samples)
    assert [guarded.reason for guarded in single] == [guarded.reason for guarded in together]
    assert sum(guarded.reason == "duplicate" for guarded in single) == 17
    for a, b in zip(single, together, strict=True):
        np.testing.assert_array_equal(a.prediction.scores, b.prediction.scores)
    assert state_digest(one) == state_digest(block)


def test_a_bad_sample_is_refused_before_anything_is_remembered(pack: FeaturePack) -> None:
    guard, method = AdmissionPolicy(), BayesMeans()
    state, recent = method.init(pack.task()), guard.init(pack.task())
    with pytest.raises(Exception, match="wide"):
        guarded_step(method, state, guard, recent, Sample(np.eye(1, 3, dtype=np.float32)))
    assert recent.count == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("duplicate_similarity", 0.2), ("duplicate_similarity", 2), ("quota", -1), ("slots", 0), ("quota", True)],
)
def test_invalid_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"guard: {name} must be from"):
        AdmissionPolicy(**{name: value})


def test_impossible_recent_samples_are_refused(pack: FeaturePack) -> None:
    recent = AdmissionPolicy().init(pack.task())
    recent.last_seen[3] = 5
    with pytest.raises(SnapshotError, match="never came"):
        recent.validate()


def test_sources_have_numbers() -> None:
    assert source_number(None) == source_number("") == 0
    assert len({source_number(name) for name in ("a", "b", "a ")}) == 3
    assert 0 < source_number("camera 1") < 2**63


@pytest.mark.pathless
def test_poison_costs_less_than_two_points_with_a_guard(shared: Path) -> None:
    """Ten in a hundred steps are images that zero-shot confidently takes for another class."""
    from cosmic_tta.evaluation.evaluator import run_evaluation

    for name in ("whurs19-rn50", "whurs19-vitb32"):
        real = FeaturePack.open(shared / "packs" / name)
        clean, poisoned = (
            np.mean(
                [
                    run_evaluation(
                        BayesMeans(), real, order=order, seed=seed, guard=AdmissionPolicy(), calibrate=False
                    ).report.metrics["acc1"]
                    for seed in range(2)
                ]
            )
            for order in ("shuffle", "poisoned:10")
        )
        assert poisoned >= clean - 0.02, name
