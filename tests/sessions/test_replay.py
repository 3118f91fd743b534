from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError, SessionDamagedError, SessionError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.replay import History
from cosmic_tta.sessions.session import Session
from tests.support.small_session import SPECS, other_task, script, small_samples, small_session

pytestmark = pytest.mark.pathless


@pytest.mark.parametrize("spec", SPECS)
def test_a_forgotten_source_equals_one_that_never_came(spec: str, tmp_path: Path) -> None:
    def run(folder: Path, *, bad: bool) -> Session:
        session = small_session(folder, spec, every=6, keep=100)
        for number, sample in enumerate(small_samples()[:45]):
            source = ("bad", "good", None, "better")[number % 4] if number > 7 else "good"
            if source != "bad" or bad:
                session.step([sample], sources=[source])
            if number == 11:
                session.snapshot("noon")
            if number == 20:
                session.change_classes(other_task(session, 2, ("new",)))
            if number == 26:
                session.pause()
            if number == 28:
                session.resume()
            if number == 30:
                session.roll_back(next(one.id for one in session.snapshots() if one.note == "noon"))
            if number == 36:
                session.forget_source("better")
        return session

    with run(tmp_path / "clean", bad=False) as clean, run(tmp_path / "corrupted", bad=True) as corrupted:
        if spec not in ("zero_shot@default", "tip_adapter@default"):
            assert state_digest(corrupted.state) != state_digest(clean.state)
        assert "bad" in corrupted.sources
        corrupted.forget_source("bad")
        assert state_digest(corrupted.state) == state_digest(clean.state)
        assert corrupted.sources.keys() == clean.sources.keys()
        with pytest.raises(InputError, match="no source 'bad'"):
            corrupted.forget_source("bad")
        more = small_samples()[50]
        one, two = corrupted.step([more])[0], clean.step([more])[0]
        assert np.array_equal(one.prediction.scores, two.prediction.scores)
    with Session.open(tmp_path / "corrupted") as again, Session.open(tmp_path / "clean") as clean:
        assert state_digest(again.state) == state_digest(clean.state)


def test_a_source_from_before_the_kept_snapshots_cannot_be_forgotten(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", every=3, keep=2)
    session.step(small_samples()[:1], sources=["early"])
    for sample in small_samples()[1:30]:
        session.step([sample], sources=["late"])
    before = session.digest()
    with pytest.raises(SessionError, match="do not reach back"):
        session.forget_source("early")
    assert session.digest() == before
    session.close()


def test_a_roll_back_across_a_change_of_classes_answers_and_opens_again(tmp_path: Path) -> None:
    samples = small_samples()
    with small_session(tmp_path / "s") as session:
        session.change_classes(other_task(session, 1, ()))
        session.step(samples[:20])
        session.roll_back("000000000000")
        assert len(session.step(samples[20:40])) == 20
        digest = session.digest()
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest


@pytest.mark.parametrize("turn", ["reset", "roll_back", "forget_source"])
def test_a_replaced_state_ends_the_alarms_also_after_a_restart(tmp_path: Path, turn: str) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:30], sources=["a"] * 30)
        assert session.monitor.alarm_state is not None
        session.monitor.alarm_state.drift_since = 7
        assert [one.kind for one in session.alarms()] == ["drift"]
        given = {"reset": (), "roll_back": ("000000000000",), "forget_source": ("a",)}[turn]
        getattr(session, turn)(*given)
        assert session.alarms() == []
        digest = session.digest()
    with Session.open(tmp_path / "s") as session:
        assert session.alarms() == []
        assert session.digest() == digest


def test_an_event_of_an_unknown_kind_names_the_last_recoverable_event(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:3])
        session._journal.append([Record("dreamt")])
    with pytest.raises(SessionDamagedError, match="event 4 cannot be replayed: .*kind 'dreamt'") as caught:
        Session.open(tmp_path / "s")
    assert caught.value.recoverable == 3
    with Session.open(tmp_path / "s", recover=True) as session:
        assert session.number == 3


def test_a_replay_without_a_monitor_gives_the_same_state(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", every=1000) as session:
        for action in script()[:18]:
            action(session)
        history = History(session.folder, session.stream_id)
        assert state_digest(history.adaptation_at(session.number).state) == state_digest(session.state)
        assert history.adaptation_at(session.number).sources == session.sources
