from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.journal.format import (
    InvalidRecord,
    Record,
    decode,
    encode,
    encode_header,
    read_header,
    segment_path,
    segments,
    span_at,
    was_synced,
)
from tests.support.session_damage import as_journal_format

pytestmark = pytest.mark.pathless
ZERO = bytes(16)


def test_a_record_is_decoded_to_what_was_encoded() -> None:
    arrays = {"clip": np.arange(6, dtype=np.float32).reshape(2, 3), "aux": np.array([np.pi, -0.0], np.float32)}
    content, own = encode(Record("step", {"source": "Zürich", "n": [1, None]}, arrays), 7, 5, ZERO)
    span = span_at(memoryview(b"..." + content), 3)
    assert (span.number, span.synced, span.previous_checksum, span.checksum) == (7, 5, ZERO, own)
    assert span.end == len(content) + 3
    again = decode(span)
    assert (again.kind, again.meta) == ("step", {"source": "Zürich", "n": [1, None]})
    assert {name: array.tobytes() for name, array in again.arrays.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_every_flipped_bit_of_a_record_is_noticed() -> None:
    content, _ = encode(Record("step", {"a": 1}, {"clip": np.ones((1, 2), np.float32)}), 1, 0, ZERO)
    for bit in range(8 * len(content)):
        corrupted = bytearray(content)
        corrupted[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidRecord):
            span_at(memoryview(bytes(corrupted)), 0)
    for length in range(len(content)):
        with pytest.raises(InvalidRecord, match="cut short"):
            span_at(memoryview(content[:length]), 0)
    header = encode_header("stream", 1, ZERO, {"method": "tda"})
    assert read_header(memoryview(header)).metadata == {"method": "tda"}
    for bit in range(8 * len(header)):
        corrupted = bytearray(header)
        corrupted[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidRecord):
            read_header(memoryview(bytes(corrupted)))


def test_another_format_is_refused_by_its_number() -> None:
    header = as_journal_format(encode_header("stream", 1, ZERO, {}), 1)
    with pytest.raises(SessionError, match=r"^'a.log' has journal format 1; this version reads format 2\.$"):
        read_header(memoryview(header), "'a.log'")


def test_a_record_counts_as_synced_once_a_later_record_says_so() -> None:
    first, chain = encode(Record("step"), 1, 0, ZERO)
    second, _ = encode(Record("step"), 2, 1, chain)
    assert was_synced(memoryview(b"x" + second), 0, 1)
    assert not was_synced(memoryview(b"x" + second), 0, 2)
    assert not was_synced(memoryview(b"x" + first), 0, 1)
    assert not was_synced(memoryview(b"x" + second[:-1]), 0, 1)


def test_segments_are_listed_in_order_of_their_first_numbers(tmp_path: Path) -> None:
    for first in (12, 3, 100):
        segment_path(tmp_path, first).touch()
    (tmp_path / "journal-x.log").touch()
    assert segments(tmp_path) == [(first, segment_path(tmp_path, first)) for first in (3, 12, 100)]
