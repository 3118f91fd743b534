from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array, as_float32
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.bayes_means.temporal_correlation import TemporalCorrelation


def followed(labels: list[int], proof: float = 100.0) -> TemporalCorrelation:
    course, mass = TemporalCorrelation.start(4, proof), np.zeros(4, np.float32)
    for label in labels:
        seen: Array = as_float32(0.05 + 0.8 * np.eye(4)[label])
        course.follow(seen, seen, mass, proof)
        mass = mass + seen
    return course


def test_a_stream_whose_classes_come_together_is_told_from_a_shuffled_one() -> None:
    sequential = followed(sorted(list(range(4)) * 50))
    shuffled = followed(np.random.default_rng(0).permutation(list(range(4)) * 50).tolist())
    assert sequential.kappa(100.0) > 0.3
    assert shuffled.kappa(100.0) < 0.1


def test_without_proof_the_share_counts_as_it_is() -> None:
    course = followed([0, 0, 0, 1], 0.0)
    assert course.odds == 0
    assert course.kappa(0.0) == course.same / course.trials


def test_what_came_lately_is_foreseen() -> None:
    course = followed([0] * 20 + [1] * 20)
    assert course.foreseen(0.8).argmax() == 1
    assert np.isfinite(course.foreseen(1.0)).all()
    assert course.recent.sum() == pytest.approx(1, abs=1e-4)


def test_it_is_carried_over_to_other_classes() -> None:
    course = followed([0] * 20)
    other = course.remapped(np.array([-1, 0]))
    assert other.recent.tolist() == [0, 1]
    assert (other.same, other.trials, other.odds) == (course.same, course.trials, course.odds)
    assert course.remapped(np.array([-1, -1])).recent.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("name", "value"), [("trials", 0.0), ("odds", 99.0), ("same", -1.0)])
def test_what_no_stream_leaves_behind_is_refused(name: str, value: float) -> None:
    course = followed([0, 1, 2])
    course.validate()
    setattr(course, name, value)
    with pytest.raises(SnapshotError, match="followed a stream as none can be"):
        course.validate()
