from __future__ import annotations

from cosmic_tta.sessions.snapshot_schedule import SnapshotSchedule


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
