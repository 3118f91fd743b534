"""Byte format of the journal: each record carries the checksum of the record before it.

A segment file begins with a header. Records follow, each laid out as

    magic 4 · meta length 4 · arrays length 4 · number 8 · synced 8 · checksum of the previous record 16
    meta (JSON) · arrays (float32, little endian, shapes in the meta) · checksum of all of the above 16

`synced` is the last record number that was known to be on disk when the record was written. With it a reader
separates two cases. A torn tail was never acknowledged and is cut off. Damage to acknowledged records is refused: a
later valid record says that they were synced.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.errors import SessionError, SessionFormatError

FORMAT = 2
RECORD_MAGIC, SEGMENT_MAGIC = b"CTJr", b"CTJh"
RECORD_HEAD = struct.Struct("<4sIIQQ16s")
SEGMENT_HEAD = struct.Struct("<4sI")
CHECKSUM_BYTES = 16
MAX_RECORD_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Record:
    """One event: its kind, its JSON values, and its named float32 arrays."""

    kind: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return the checksum of some bytes."""
    digest = blake2b(digest_size=CHECKSUM_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def encode(record: Record, number: int, synced: int, chain: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of a record and its checksum; `chain` is the checksum of the record before it."""
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in record.arrays.items()}
    meta = {"kind": record.kind, **record.meta, "arrays": [[name, *a.shape] for name, a in arrays.items()]}
    text = json.dumps(meta, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    if len(text) + len(data) > MAX_RECORD_BYTES:
        raise SessionError(f"one record may have {MAX_RECORD_BYTES} bytes; given {len(text) + len(data)}.")
    body = RECORD_HEAD.pack(RECORD_MAGIC, len(text), len(data), number, synced, chain) + text + data
    own = checksum(body)
    return body + own, own


def encode_header(stream_id: str, first: int, chain: bytes, metadata: Mapping[str, Any]) -> bytes:
    """Return the bytes of a segment's header; `first` is the number of its first record."""
    fields = {"format": FORMAT, "stream_id": stream_id, "first": first, "chain": chain.hex(), "metadata": metadata}
    text = json.dumps(fields, ensure_ascii=False).encode()
    body = SEGMENT_HEAD.pack(SEGMENT_MAGIC, len(text)) + text
    return body + checksum(body)


class InvalidRecord(Exception):  # noqa: N818 - not an error by itself: the reader decides
    """Bytes that are no valid record or header."""


class RecordSpan(NamedTuple):
    """A record with a valid checksum within a segment; its JSON is not parsed yet."""

    number: int
    synced: int
    previous_checksum: bytes
    checksum: bytes
    meta: memoryview
    arrays: memoryview
    end: int  # offset of the next record


def span_at(data: memoryview, start: int) -> RecordSpan:
    """Return the record that begins at an offset.

    Raises:
        InvalidRecord: no valid record begins there.
    """
    if len(data) - start < RECORD_HEAD.size:
        raise InvalidRecord("its last record is cut short")
    magic, meta_bytes, array_bytes, number, synced, previous = RECORD_HEAD.unpack_from(data, start)
    if magic != RECORD_MAGIC or meta_bytes + array_bytes > MAX_RECORD_BYTES:
        raise InvalidRecord("bytes that are no record")
    end = start + RECORD_HEAD.size + meta_bytes + array_bytes
    if end + CHECKSUM_BYTES > len(data):
        raise InvalidRecord("its last record is cut short")
    own = bytes(data[end : end + CHECKSUM_BYTES])
    if checksum(data[start:end]) != own:
        raise InvalidRecord("a record does not match its checksum")
    meta = start + RECORD_HEAD.size
    arrays = meta + meta_bytes
    return RecordSpan(number, synced, previous, own, data[meta:arrays], data[arrays:end], end + CHECKSUM_BYTES)


def decode(span: RecordSpan) -> Record:
    """Parse a record whose checksum is valid."""
    meta = json.loads(bytes(span.meta))
    arrays, start = {}, 0
    for name, *shape in meta.pop("arrays"):
        size = 4 * int(np.prod(shape))
        values = np.frombuffer(span.arrays[start : start + size], "<f4").reshape(shape)
        arrays[name], start = values.astype(np.float32), start + size
    return Record(meta.pop("kind"), meta, arrays)


@dataclass(frozen=True)
class SegmentHeader:
    """The header of a segment."""

    stream_id: str
    first: int  # number of the first record
    chain: bytes  # checksum of the record before it
    metadata: Mapping[str, Any]
    length: int  # bytes of the header itself


def read_header(data: memoryview, name: str = "the journal") -> SegmentHeader:
    """Read the header of a segment; `name` is how errors call the file.

    Raises:
        InvalidRecord: the header is cut short or does not match its checksum.
        SessionFormatError: another version wrote it, in another format.
    """
    if len(data) < SEGMENT_HEAD.size + CHECKSUM_BYTES:
        raise InvalidRecord("its header is cut short")
    magic, size = SEGMENT_HEAD.unpack_from(data, 0)
    end = SEGMENT_HEAD.size + size
    stored = bytes(data[end : end + CHECKSUM_BYTES])
    if magic != SEGMENT_MAGIC or end + CHECKSUM_BYTES > len(data) or checksum(data[:end]) != stored:
        raise InvalidRecord("its header does not match its checksum")
    fields = json.loads(bytes(data[SEGMENT_HEAD.size : end]))
    if fields["format"] != FORMAT:
        raise SessionFormatError(f"{name} has journal format {fields['format']!r}; this version reads format {FORMAT}.")
    return SegmentHeader(
        fields["stream_id"], fields["first"], bytes.fromhex(fields["chain"]), fields["metadata"], end + CHECKSUM_BYTES
    )


def segments(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a folder with the numbers of their first records, in order."""
    found = []
    for path in folder.glob("journal-*.log"):
        number = path.stem.removeprefix("journal-")
        if number.isdigit():
            found.append((int(number), path))
    return sorted(found)


def segment_path(folder: Path, first: int) -> Path:
    """Return the path of the segment whose first record has a number."""
    return folder / f"journal-{first:012d}.log"


def was_synced(data: memoryview, start: int, number: int) -> bool:
    """Return whether a valid record behind an offset says that a record number was on disk before it."""
    content = bytes(data)
    offset = start
    while (offset := content.find(RECORD_MAGIC, offset + 1)) >= 0:
        try:
            span = span_at(data, offset)
        except InvalidRecord:
            continue
        if span.synced >= number:
            return True
    return False
