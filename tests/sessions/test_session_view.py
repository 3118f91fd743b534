from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.session_info import HealthSummary
from tests.support.small_session import contents, small_samples, small_session

pytestmark = pytest.mark.pathless


def test_peek_writes_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    session.step(small_samples()[:3])
    before, files = session.digest(), contents(tmp_path / "s")
    session.peek(small_samples()[3:9])
    assert (session.digest(), contents(tmp_path / "s")) == (before, files)
    session.close()


def test_a_session_describes_itself(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", metadata={"room": 3}, every=2) as session:
        assert session.health == HealthSummary(False, None, None, ())
        assert session.signals() == (0.0, 1.0, 1.0, 0.0)
        session.step(small_samples()[:3], sources=["door", None, "door"])
        session.pause()
        (result,) = session.step(small_samples()[3:4])
        session.label(result.number, session.task.class_names[result.prediction.label])
        assert (session.number, session.seen, session.closed) == (6, 3, False)
        assert session.metadata == {"room": 3}
        assert session.sources == {"door": [1, 2]}
        assert session.not_learned == {"paused": 1, "duplicate": 0, "quota": 0}
        assert session.health.accuracy == 1.0
        assert [one.number for one in session.snapshots()] == [5, 3, 0]
        assert session.method.name == "tda"
        assert session.state.task is session.task


def test_an_earlier_adaptation_state_is_rebuilt_from_disk(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", every=4) as session:
        session.step(small_samples()[:6])
        then = state_digest(session.state)
        session.step(small_samples()[6:9])
        assert state_digest(session.adaptation_at(6).state) == then
        assert state_digest(session.state) != then
