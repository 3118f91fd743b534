from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.journal.reader import JournalReader
from cosmic_tta.sessions.journal.writer import JournalWriter, SyncPolicy
from cosmic_tta.sessions.session import Session
from tests.support.small_session import small_samples, small_session

pytestmark = pytest.mark.pathless


def test_records_are_synced_as_the_policy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr("cosmic_tta.core.files.sync", syncs.append)
    clock = [100.0]
    monkeypatch.setattr("cosmic_tta.sessions.journal.writer.time.monotonic", lambda: clock[0])
    for policy, expected in (("always", 10), ("everysec", 3)):
        (tmp_path / policy).mkdir()
        journal = JournalWriter.create(tmp_path / policy, "s", {}, policy=policy)  # type: ignore[arg-type]
        syncs.clear()
        for _ in range(10):
            clock[0] += 0.3
            journal.append([Record("a")])
        assert len(syncs) == expected if policy == "always" else 2 <= len(syncs) <= expected
        journal.append([Record("a")])
        synced = journal.synced
        clock[0] += 1.1
        journal.flush(only_if_due=True)
        assert journal.synced == 11
        assert synced == (11 if policy == "always" else synced)
        journal.close()


def test_a_long_segment_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.sessions.journal.writer.MAX_SEGMENT_BYTES", 1000)
    session = small_session(tmp_path / "s")
    for sample in small_samples()[:20]:
        session.step([sample])
    digest = session.digest()
    session.abandon()
    assert len(list((tmp_path / "s").glob("journal*"))) > 3
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest


def numbers(folder: Path) -> list[int]:
    return [entry.number for entry in JournalReader(folder, "s", 0, None)]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_retracted_records_are_gone_and_their_numbers_are_used_again(tmp_path: Path, policy: SyncPolicy) -> None:
    journal = JournalWriter.create(tmp_path, "s", {}, policy=policy)
    assert journal.append([Record("a"), Record("b")]) == [1, 2]
    position = journal.position
    journal.append([Record("c")])
    journal.retract(position)
    assert numbers(tmp_path) == [1, 2]
    assert journal.append([Record("d")]) == [3]
    journal.close()
    assert [entry.record.kind for entry in JournalReader(tmp_path, "s", 0, None)] == ["a", "b", "d"]


def test_a_new_segment_continues_the_numbers(tmp_path: Path) -> None:
    journal = JournalWriter.create(tmp_path, "s", {}, number=4)
    journal.rotate()  # the first segment is still empty
    journal.append([Record("a")])
    journal.rotate()
    journal.append([Record("b")])
    journal.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"journal-{first:012d}.log" for first in (5, 6)]
    reader = JournalReader(tmp_path, "s", 4, None)
    assert [entry.number for entry in reader] == [5, 6]
    assert reader.tail is not None
    assert (reader.tail.number, reader.tail.torn_bytes) == (6, 0)


def test_a_closed_journal_refuses_records(tmp_path: Path) -> None:
    journal = JournalWriter.create(tmp_path, "s", {})
    journal.close()
    journal.close()
    assert journal.closed
    with pytest.raises(SessionError, match="closed; open the session again"):
        journal.append([Record("a")])
