"""Corrupted files are recovered to a prefix of the events or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import parse, snapshot_numbers, snapshot_path
from tests.support.session_damage import flips, last_record, outcomes, recorded, truncations
from tests.support.small_session import FaultyOs, Files, faulty_disk, in_memory, outcome, write_files

pytestmark = pytest.mark.pathless
Corruptible = tuple[Path, Files, dict[int, str]]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory("damage-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with faulty_disk(FaultyOs(at=0)):  # nothing fails, and nobody waits for the disk
        yield


@pytest.fixture(scope="module")
def corruptible(tmp_path_factory: pytest.TempPathFactory) -> Corruptible:
    folder = tmp_path_factory.mktemp("damage") / "whole"
    files, digests = recorded(folder)
    return folder, files, digests


def test_a_journal_cut_at_every_byte_of_its_last_record(corruptible: Corruptible, tmp_path: Path) -> None:
    folder, files, digests = corruptible
    name, start = last_record(folder)
    assert len(files[name]) - start > 100
    found = outcomes(tmp_path / "s", truncations(files, name, start), digests)
    assert found == {"prefix": len(files[name]) - start}
    session = Session.open(tmp_path / "s")
    assert session.number == max(digests)  # the last one less, and one more since then
    session.close()


def test_a_torn_tail_is_cut_off_reported_and_saved(corruptible: Corruptible, tmp_path: Path) -> None:
    folder, files, digests = corruptible
    name, start = last_record(folder)
    write_files(tmp_path / "s", {**files, name: files[name][: start + 33]})
    with Session.open(tmp_path / "s") as session:
        assert session.number == max(digests) - 1
        assert "33 bytes at the end" in session.warnings[0]
    assert (tmp_path / "s" / name).with_suffix(".torn").read_bytes() == files[name][start : start + 33]
    with Session.open(tmp_path / "s") as session:
        assert session.warnings == []


def test_a_journal_cut_anywhere_else(corruptible: Corruptible, tmp_path: Path) -> None:
    _, files, digests = corruptible
    for name in (name for name in files if name.startswith("journal")):
        offsets = range(0, len(files[name]), 97)
        found = outcomes(tmp_path / "s", ({**files, name: files[name][:at]} for at in offsets), digests)
        assert not found["lost"]


def test_a_snapshot_cut_at_every_byte_is_refused(corruptible: Corruptible, tmp_path: Path) -> None:
    folder, files, digests = corruptible
    newest = snapshot_path(folder, snapshot_numbers(folder)[0]).name
    for length in range(len(files[newest])):
        with pytest.raises(SnapshotError):
            parse(files[newest][:length], "it")
    cuts = range(0, len(files[newest]), 211)
    found = outcomes(tmp_path / "s", ({**files, newest: files[newest][:at]} for at in cuts), digests)
    assert found == {"whole": len(cuts)}  # from the one before it and the journal


def test_random_flips_never_give_a_state_that_never_existed(corruptible: Corruptible, tmp_path: Path) -> None:
    _, files, digests = corruptible
    found = outcomes(tmp_path / "s", flips(files, 1000, seed=5), digests)
    assert found.total() == 1000
    assert not found["lost"]
    assert found["refused"] > 50
    assert found["whole"] > 50


def test_every_bit_of_a_record_counts(corruptible: Corruptible, tmp_path: Path) -> None:
    folder, files, digests = corruptible
    name, start = last_record(folder)
    for at in range(start, start + 44):  # the head, bit by bit
        for bit in range(0, 8, 3):
            content = bytearray(files[name])
            content[at] ^= 1 << bit
            assert outcome(tmp_path / "s", {**files, name: bytes(content)}, digests) == "prefix"
