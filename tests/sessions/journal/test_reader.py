from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.sessions.journal import format as journal_format
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.journal.reader import JournalReader
from cosmic_tta.sessions.journal.writer import JournalWriter
from tests.support.small_session import contents, outcome, script, undisturbed

pytestmark = pytest.mark.pathless


def test_an_unsynced_tail_is_cut_off_and_damage_to_synced_records_is_reported(tmp_path: Path) -> None:
    journal = JournalWriter.create(tmp_path, "s", {}, policy="always")
    journal.append([Record("a")])
    journal.append([Record("b"), Record("c"), Record("d")])  # one sync for the three
    journal.close()
    path = next(tmp_path.glob("journal*"))
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(journal_format.RECORD_MAGIC, at)]

    def read(corrupted_at: int, content: bytes = data) -> tuple[list[int], JournalReader]:
        corrupted = bytearray(content)
        corrupted[starts[corrupted_at] + 60] ^= 1
        path.write_bytes(bytes(corrupted))
        reader = JournalReader(tmp_path, "s", 0, None)
        return [one.number for one in reader], reader

    # The disk may have written the third of a block and not the second: nobody was answered yet.
    numbers, reader = read(1)
    assert (numbers, reader.damage) == ([1], None)
    assert reader.tail is not None
    assert reader.tail.torn_bytes == len(data) - starts[1]
    # But the first was synced before the block was written.
    numbers, reader = read(0)
    assert numbers == []
    assert reader.damage is not None


def test_lost_swapped_and_foreign_segments_are_noticed(tmp_path: Path) -> None:
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
