"""Spoiled files: recovered to a prefix or refused, never a state that never was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from session_damage import flips, last_record, outcomes, recorded, truncations
from small_session import (
    FaultyOs,
    Files,
    contents,
    faulty_disk,
    in_memory,
    laid_out,
    outcome,
    script,
    small_samples,
    small_session,
    undisturbed,
)

from cosmic_tta.errors import SessionDamaged, SnapshotError
from cosmic_tta.moments import parse, snapshot_numbers, snapshot_path
from cosmic_tta.session import Session

pytestmark = pytest.mark.pathless


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory("damage-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with faulty_disk(FaultyOs(at=0)):  # nothing fails, and nobody waits for the disk
        yield


@pytest.fixture(scope="module")
def spoilable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Files, dict[int, str]]:
    folder = tmp_path_factory.mktemp("damage") / "whole"
    files, digests = recorded(folder)
    return folder, files, digests


def test_a_journal_cut_at_every_byte_of_its_last_record(
    spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path
) -> None:
    folder, files, digests = spoilable
    name, start = last_record(folder)
    assert len(files[name]) - start > 100
    found = outcomes(tmp_path / "s", truncations(files, name, start), digests)
    assert found == {"prefix": len(files[name]) - start}
    session = Session.open(tmp_path / "s")
    assert session.number == max(digests)  # the last one less, and one more since then
    session.close()


def test_a_torn_tail_is_cut_off_told_and_laid_aside(
    spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path
) -> None:
    folder, files, digests = spoilable
    name, start = last_record(folder)
    laid_out(tmp_path / "s", {**files, name: files[name][: start + 33]})
    with Session.open(tmp_path / "s") as session:
        assert session.number == max(digests) - 1
        assert "33 bytes at the end" in session.warnings[0]
    assert (tmp_path / "s" / name).with_suffix(".torn").read_bytes() == files[name][start : start + 33]
    with Session.open(tmp_path / "s") as session:
        assert session.warnings == []


def test_a_journal_cut_anywhere_else(spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path) -> None:
    _, files, digests = spoilable
    for name in (name for name in files if name.startswith("journal")):
        places = range(0, len(files[name]), 97)
        found = outcomes(tmp_path / "s", ({**files, name: files[name][:at]} for at in places), digests)
        assert not found["lost"]


def test_a_snapshot_cut_at_every_byte_is_refused(spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path) -> None:
    folder, files, digests = spoilable
    newest = snapshot_path(folder, snapshot_numbers(folder)[0]).name
    for length in range(len(files[newest])):
        with pytest.raises(SnapshotError):
            parse(files[newest][:length], "it")
    cuts = range(0, len(files[newest]), 211)
    found = outcomes(tmp_path / "s", ({**files, newest: files[newest][:at]} for at in cuts), digests)
    assert found == {"whole": len(cuts)}  # from the one before it and the journal


def test_random_flips_never_give_a_state_that_never_was(
    spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path
) -> None:
    _, files, digests = spoilable
    found = outcomes(tmp_path / "s", flips(files, 1000, seed=5), digests)
    assert found.total() == 1000
    assert not found["lost"]
    assert found["refused"] > 50
    assert found["whole"] > 50


def test_every_bit_of_a_record_counts(spoilable: tuple[Path, Files, dict[int, str]], tmp_path: Path) -> None:
    folder, files, digests = spoilable
    name, start = last_record(folder)
    for at in range(start, start + 44):  # the head, bit by bit
        for bit in range(0, 8, 3):
            content = bytearray(files[name])
            content[at] ^= 1 << bit
            assert outcome(tmp_path / "s", {**files, name: bytes(content)}, digests) == "prefix"


def test_damage_before_the_end_is_refused_with_what_can_be_had_back(tmp_path: Path) -> None:
    digests = undisturbed(tmp_path / "s", script()[:9], every=100)
    files = contents(tmp_path / "s")
    (name,) = (name for name in files if name.startswith("journal"))
    content = bytearray(files[name])
    content[len(content) // 2] ^= 4
    laid_out(tmp_path / "s", {**files, name: bytes(content)})
    with pytest.raises(SessionDamaged, match=r"does not match its checksum.*up to event 2 can be recovered") as caught:
        Session.open(tmp_path / "s")
    assert caught.value.recoverable == 2
    with Session.open(tmp_path / "s", recover=True) as session:
        assert session.digest() == digests[2]
        assert "recovered up to event 2." in session.warnings
        session.step(small_samples()[:2])
        digest = session.digest()
    assert (tmp_path / "s" / f"{name}.damaged").read_bytes() == bytes(content)
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest


def test_lost_swapped_and_foreign_segments_are_seen(tmp_path: Path) -> None:
    digests = undisturbed(tmp_path / "s", [*script()[:6]], every=2, keep=9)
    undisturbed(tmp_path / "other", [*script()[:6]], every=2, keep=9)
    files, foreign = contents(tmp_path / "s"), contents(tmp_path / "other")
    journals = sorted(name for name in files if name.startswith("journal"))
    for name in [name for name in files if name.startswith("snapshot") and not name.endswith("0000.safetensors")]:
        files.pop(name)  # so that all of the journal is needed
    assert outcome(tmp_path / "t", files, digests) == "whole"
    middle = journals[1]
    assert outcome(tmp_path / "t", {**files, middle: foreign[middle]}, digests) == "refused"
    assert outcome(tmp_path / "t", {**files, middle: files[journals[2]]}, digests) == "refused"
    assert outcome(tmp_path / "t", {k: v for k, v in files.items() if k != middle}, digests) == "refused"
    assert outcome(tmp_path / "t", {k: v for k, v in files.items() if k not in journals}, digests) == "refused"
    # A record twice, a record left out, two in the wrong order.
    data = files[middle]
    start = data.index(b"CTJr")
    second = data.index(b"CTJr", start + 4)
    one, two = data[start:second], data[second:]
    for body in (one + one + two, two, two + one, one + one):
        assert outcome(tmp_path / "t", {**files, middle: data[:start] + body}, digests) == "refused"


def test_a_snapshot_of_another_stream_is_not_taken(tmp_path: Path) -> None:
    with small_session(tmp_path / "one", "tda", every=100) as one, small_session(tmp_path / "two", "tda") as two:
        for session in (one, two):
            session.step(small_samples()[:4])
            session.snapshot()
        name = snapshot_path(tmp_path, 4).name
    (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(SessionDamaged, match="another stream"):
        Session.open(tmp_path / "one")
