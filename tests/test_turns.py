"""Turns of a session: what was learned becomes something else, and everything beside it follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_session import other_task, small_method, small_pack, small_samples, small_session

from cosmic_tta.errors import InputError
from cosmic_tta.explanation import Explanation
from cosmic_tta.monitor import Monitor
from cosmic_tta.session import MOST_SOURCES, Session
from cosmic_tta.store import Store

pytestmark = pytest.mark.pathless


def test_a_roll_back_across_other_classes_answers_and_opens_again(tmp_path: Path) -> None:
    samples = small_samples()
    with small_session(tmp_path / "s") as session:
        session.change_classes(other_task(session, 1, ()))
        session.step(samples[:20])
        session.roll_back("000000000000")
        assert len(session.step(samples[20:40])) == 20
        digest = session.digest()
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest


@pytest.mark.parametrize("turn", ["reset", "roll_back", "without"])
def test_a_turn_ends_the_alarms_also_after_a_restart(tmp_path: Path, turn: str) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:30], sources=["a"] * 30)
        assert session.monitor.watched is not None
        session.monitor.watched.drifted = 7
        assert [one.kind for one in session.alarms()] == ["drift"]
        given = {"reset": (), "roll_back": ("000000000000",), "without": ("a",)}[turn]
        getattr(session, turn)(*given)
        assert session.alarms() == []
        digest = session.digest()
    with Session.open(tmp_path / "s") as session:
        assert session.alarms() == []
        assert session.digest() == digest


def test_an_alarm_names_the_event_that_raised_it(tmp_path: Path) -> None:
    pack = small_pack()
    with small_session(tmp_path / "s") as session:
        session.step(small_samples(), sources=None)
        session.labels([(number, pack.class_names[0]) for number in range(1, 41)])  # events that are no image
        moved = [type(one)(np.roll(one.clip, 5, axis=1), one.aux) for one in small_samples() * 4]
        for one in moved:
            session.step([one])
            if session.alarms():
                break
        (alarm,) = session.alarms()
        assert session.number - 8 < alarm.since <= session.number


def test_snapshots_by_hand_do_not_shorten_what_can_be_undone(tmp_path: Path) -> None:
    samples = small_samples()
    with small_session(tmp_path / "s", keep=3, every=50) as session:
        session.step(samples[:5], sources=["bad"] * 5)
        for number in range(20):
            session.step([samples[10 + number]], sources=["good"])
            session.snapshot()
        numbers = [one.number for one in session.snapshots()]
        assert numbers == [25, 24, 23, 0]
        session.without("bad")
        with small_session(tmp_path / "other") as other:
            for number in range(20):
                other.step([samples[10 + number]], sources=["good"])
            for name, value in vars(session.state).items():
                if isinstance(value, np.ndarray):
                    np.testing.assert_array_equal(value, vars(other.state)[name])


def test_zero_shot_that_answers_in_its_place_is_not_explained_by_what_was_learned(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", "cosmic") as session:
        session.step(small_samples()[:30])
        assert session.step(small_samples()[30:31])[0].prediction.why.plain() != Explanation().plain()
        assert not session.glance.fallen_back
        session.monitor.fallen = 3
        assert session.glance.fallen_back
        (answered,) = session.step(small_samples()[31:32])
        np.testing.assert_array_equal(answered.prediction.scores, answered.prediction.parts["zero_shot"])
        assert answered.prediction.why.plain() == Explanation().plain()


def test_sources_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.session.MOST_SOURCES", 3)
    samples = small_samples()
    with small_session(tmp_path / "s") as session:
        session.step(samples[:3], sources=["a", "b", "c"])
        with pytest.raises(InputError, match="at most 3 sources"):
            session.step(samples[3:5], sources=["a", "d"])
        assert session.step(samples[3:5], sources=["a", None])[1].number == 5
    assert MOST_SOURCES == 4096


def test_a_step_that_the_monitor_cannot_take_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = small_samples()
    with small_session(tmp_path / "s") as session:
        session.step(samples[:5])
        digest = session.digest()

        def broken(*_: Any) -> None:
            raise IndexError("a defect")

        with monkeypatch.context() as now:
            now.setattr(Monitor, "answer", broken)
            with pytest.raises(IndexError):
                session.step(samples[5:8])
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest
        assert session.number == 5


def test_a_session_that_a_defect_keeps_shut_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "data") as store:
        keys = [store.create(name, small_pack().task(), small_method("tda"), every=100) for name in ("one", "two")]
        for key in keys:
            store.get(key).step(small_samples()[:5])
    opened = Session.open

    def half(folder: Path, **how: Any) -> Session:
        if Path(folder).name == keys[0]:
            raise ZeroDivisionError("a defect")
        return opened(folder, **how)

    monkeypatch.setattr(Session, "open", half)
    with Store(tmp_path / "data") as store:
        store.open_all()
        assert list(store.damaged()) == [keys[0]]
        assert "ZeroDivisionError: a defect" in str(store.damaged()[keys[0]])
        assert store.name_of(keys[0]) == "one"
        assert store.get(keys[1]).number == 5
