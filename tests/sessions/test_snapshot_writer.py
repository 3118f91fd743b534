from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import StorageError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.snapshot_writer import MAX_WARNINGS, SnapshotSchedule
from tests.support.small_session import FaultyOs, faulty_disk, small_samples, small_session

pytestmark = pytest.mark.pathless


def test_a_snapshot_is_due_after_an_interval() -> None:
    schedule = SnapshotSchedule.after(40, every=20)
    assert [number for number in range(40, 65) if schedule.is_due(number)] == [60, 61, 62, 63, 64]
    assert not schedule.required


def test_a_required_snapshot_is_due_at_once_and_stays_required_until_it_is_written() -> None:
    schedule = SnapshotSchedule.after(40, every=20).require()
    assert schedule.is_due(41)
    failed = schedule.postpone(41)
    assert failed.required
    assert [failed.is_due(number) for number in (41, 42, 43)] == [False, False, True]
    assert SnapshotSchedule.after(43, every=20) == SnapshotSchedule(20, 63)


def test_a_failed_snapshot_is_tried_again_soon() -> None:
    assert SnapshotSchedule.after(0, every=500).postpone(500).due_at == 550
    assert SnapshotSchedule.after(0, every=3).postpone(3).due_at == 4
    assert not SnapshotSchedule.after(0, every=3).postpone(3).required


def test_a_snapshot_that_a_restart_needs_is_not_removed(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    session.step(small_samples()[:3])
    kept = session.snapshot("kept")
    session.step(small_samples()[3:6])
    session.snapshot()
    with faulty_disk(FaultyOs(4, lasting=True)) as faults:  # room for the event, none for a snapshot
        session.roll_back(kept.id)
        assert session.warnings
        with pytest.raises(StorageError):
            session.drop_snapshot(kept.id)
        faults.broken = False
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as session:  # goes back once more, and for good
        assert session.snapshots()[0].number == session.number
        session.drop_snapshot(kept.id)
        assert session.digest() == digest
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest


def test_a_snapshot_that_fails_is_tried_again_and_harms_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", every=10)
    session.step(small_samples()[:9])
    with faulty_disk(FaultyOs(3, lasting=True)) as faults:  # the event is written and synced, then the disk is full
        session.step(small_samples()[9:10])
        faults.broken = False
    (warning,) = session.warnings
    assert warning.startswith("after event 10: cannot write")
    assert [one.number for one in session.snapshots()] == [0]
    session.step(small_samples()[10:11])  # a tenth of the interval later
    assert [one.number for one in session.snapshots()] == [11, 0]
    session.close()


def test_only_the_last_warnings_are_kept(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:1])
        with faulty_disk(FaultyOs(1, lasting=True)):
            for _ in range(30):
                session._snapshots.write_if_due(session._current, required=True)
        assert len(session.warnings) == MAX_WARNINGS
        assert session._snapshots.schedule.required


def test_a_snapshot_without_a_note_does_not_replace_one_with_a_note(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:2])
        session.snapshot("kept")
        assert session.snapshot().note == "kept"
        assert session.snapshot("renamed").note == "renamed"
