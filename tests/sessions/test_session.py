"""A session continues after a restart, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import Sample
from cosmic_tta.core.errors import InputError, LockedError, SessionError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.monitor import Monitor
from cosmic_tta.sessions.session import Session
from tests.support.small_session import SPECS, contents, script, small_samples, small_session, undisturbed

pytestmark = pytest.mark.pathless


@pytest.mark.parametrize("spec", SPECS)
def test_a_restart_after_any_event_changes_nothing(spec: str, tmp_path: Path) -> None:
    digests = undisturbed(tmp_path / "whole", script(), spec, every=1000)
    session = small_session(tmp_path / "killed", spec, every=7, keep=3)
    assert session.digest() == digests[0]
    for action in script():
        action(session)
        assert session.digest() == digests[session.number]
        session.abandon()  # as kill -9 does
        session = Session.open(tmp_path / "killed")
        assert session.digest() == digests[session.number]
        assert session.warnings == []
    assert session.number == max(digests)
    session.close()


@pytest.mark.parametrize("spec", SPECS)
def test_a_block_equals_its_samples_one_by_one(spec: str, tmp_path: Path) -> None:
    samples = small_samples()
    one, many = small_session(tmp_path / "one", spec), small_session(tmp_path / "many", spec, policy="everysec")
    answers = [one.step([sample])[0] for sample in samples[:40]]
    together = [a for start in range(0, 40, 8) for a in many.step(samples[start : start + 8])]
    assert [a.number for a in together] == [a.number for a in answers] == list(range(1, 41))
    assert all(np.array_equal(a.prediction.scores, b.prediction.scores) for a, b in zip(together, answers, strict=True))
    assert one.digest() == many.digest()
    for session in (one, many):
        session.close()


def test_while_paused_it_answers_and_does_not_learn(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    session.step(small_samples()[:5])
    before = state_digest(session.state)
    session.pause()
    session.pause()  # twice is once
    paused = session.step(small_samples()[5:8])
    assert [a.learned for a in paused] == [False] * 3
    assert [a.number for a in paused] == [7, 8, 9]
    assert state_digest(session.state) == before
    assert session.monitor.counts["answered"] == 8
    assert session.monitor.counts["learned"] == 5
    assert np.array_equal(session.peek(small_samples()[5:6])[0].scores, paused[0].prediction.scores)
    session.resume()
    assert session.step(small_samples()[5:6])[0].learned
    assert session.seen == 6
    session.close()


def test_bad_input_writes_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    good = small_samples()[0]
    session.step([good])
    before, files = session.digest(), contents(tmp_path / "s")
    attempts: list[Any] = [
        lambda: session.step([good, Sample(good.clip)]),
        lambda: session.step([Sample(np.eye(1, 3, dtype=np.float32), good.aux)]),
        lambda: session.step([good], sources=["a", "b"]),
        lambda: session.step([good], sources="a"),
        lambda: session.step([good], sources=["x" * 1000]),
        lambda: session.step([good], tags=[""]),
        lambda: session.step([good], tags=[7]),  # type: ignore[list-item]
        lambda: session.step(["no sample"]),  # type: ignore[list-item]
        lambda: session.label(1, "nothing"),
        lambda: session.label(2, session.task.class_names[0]),
        lambda: session.label("1", session.task.class_names[0]),  # type: ignore[arg-type]
        lambda: session.roll_back("7"),
        lambda: session.roll_back("../../etc/passwd"),
        lambda: session.roll_back("٣"),
        lambda: session.snapshot("x" * 1000),
        lambda: session.forget_source("nobody"),
        lambda: session.change_classes(session.task, {"nobody": "new"}),
        lambda: session.drop_snapshot("12"),
    ]
    for attempt in attempts:
        with pytest.raises(InputError):
            attempt()
    task = session.task
    for other in (
        replace(task, encoder="another"),
        replace(task, logit_scale=3.0),
        replace(task, text=task.text[::-1].copy()),
        replace(task, text=np.eye(4, 9, dtype=np.float32)),
    ):
        with pytest.raises(SessionError, match="create"):
            session.change_classes(other)
    assert session.step([]) == []
    assert (session.digest(), contents(tmp_path / "s")) == (before, files)
    session.close()


def test_roll_back_and_reset(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "cosmic@default", every=5, keep=2)
    session.step(small_samples()[:3])
    early = state_digest(session.state)
    kept = session.snapshot("before lunch")
    for sample in small_samples()[3:30]:
        session.step([sample])
    assert [one.id for one in session.snapshots()] == ["000000000028", "000000000023", kept.id]
    session.roll_back(kept.id)
    assert state_digest(session.state) == early
    assert (session.seen, session.number) == (3, 31)
    assert session.monitor.counts["answered"] == 30  # what was answered was answered
    session.abandon()
    session = Session.open(tmp_path / "s")
    assert state_digest(session.state) == early
    session.reset()
    assert state_digest(session.state) == state_digest(session.method.init(session.task))
    with pytest.raises(SessionError, match="cannot be removed"):
        session.drop_snapshot(session.snapshots()[0].id)
    session.drop_snapshot(kept.id)
    with pytest.raises(InputError, match="pruned"):
        session.roll_back(kept.id)
    session.close()


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    with pytest.raises(LockedError, match=r"in use by process \d+; one process per folder"):
        Session.open(tmp_path / "s")
    assert not session.closed
    session.close()
    session.close()
    assert session.closed
    with pytest.raises(SessionError, match="closed; open the session again"):
        session.step(small_samples()[:1])
    Session.open(tmp_path / "s").close()


@pytest.mark.parametrize("spec", SPECS)
def test_export_and_import(spec: str, tmp_path: Path) -> None:
    with small_session(tmp_path / "s", spec) as session:
        for action in script():
            action(session)
        session.export(tmp_path / "file")
        with Session.import_(tmp_path / "file", tmp_path / "t", "again") as other:
            assert (other.digest(), other.number, other.name) == (session.digest(), session.number, "again")
            assert other.stream_id != session.stream_id
            other.label(next(other.monitor.recent()).number, other.task.class_names[0])
            session.label(next(session.monitor.recent()).number, session.task.class_names[0])
            one, two = other.step(small_samples()[30:40]), session.step(small_samples()[30:40])
            assert all(np.array_equal(a.prediction.scores, b.prediction.scores) for a, b in zip(one, two, strict=True))
            digest = other.digest()
        with Session.open(tmp_path / "t") as other:
            assert other.digest() == digest


def test_a_step_that_fails_is_retracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_session(tmp_path / "s", "cosmic@default", every=4)
    session.step(small_samples()[:10])
    before = session.digest()
    kind = type(session.method)
    whole, calls = kind._block, 0

    def failing(self: Any, state: Any, samples: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:  # the one that rebuilds
            return whole(self, state, samples)
        whole(self, state, samples[:1])
        raise MemoryError

    monkeypatch.setattr(kind, "_block", failing)
    with pytest.raises(MemoryError):
        session.step(small_samples()[10:13])
    assert session.digest() == before
    assert session.number == 10
    monkeypatch.undo()
    session.step(small_samples()[10:13])
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as again, small_session(tmp_path / "t", "cosmic@default") as whole_run:
        whole_run.step(small_samples()[:13])
        assert again.digest() == digest == whole_run.digest()


def test_a_step_that_fails_in_the_monitor_is_retracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
