"""A record of the journal ⇄ bytes, chained to the one before by its checksum.

A segment begins with a header; a record is

    magic 4 · length of meta 4 · length of arrays 4 · number 8 · synced 8 · checksum of the record before 16
    meta (JSON) · arrays (float32, little endian, shapes in the meta) · checksum of all that 16

`synced` is the last number that was known to be on disk when the record was written. So a reader can tell a tail that
never was (cut off) from damage to what was promised (refused): damaged is what a later sound record says was synced.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cosmic_tta.errors import SessionError
from cosmic_tta.ops import Array

MAGIC, HEADER_MAGIC = b"CTJr", b"CTJh"
HEAD = struct.Struct("<4sIIQQ16s")
HEADER = struct.Struct("<4sI")
SUM = 16
LARGEST = 1 << 30  # bytes of one record


@dataclass(frozen=True, eq=False)
class Record:
    """One event: its kind, plain values, named float32 arrays."""

    kind: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return what tells some bytes from all others."""
    digest = blake2b(digest_size=SUM)
    for part in parts:
        digest.update(part)
    return digest.digest()


def encode(record: Record, number: int, synced: int, chain: bytes) -> tuple[bytes, bytes]:
    """Return a record's bytes and its checksum."""
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in record.arrays.items()}
    meta = {"kind": record.kind, **record.meta, "arrays": [[name, *a.shape] for name, a in arrays.items()]}
    text = json.dumps(meta, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    if len(text) + len(data) > LARGEST:
        raise SessionError(f"one record may have {LARGEST} bytes; given {len(text) + len(data)}.")
    body = HEAD.pack(MAGIC, len(text), len(data), number, synced, chain) + text + data
    own = checksum(body)
    return body + own, own


def encode_header(stream: str, first: int, chain: bytes, about: Mapping[str, Any]) -> bytes:
    """Return the header of a segment."""
    told = {"format": current_format(), "stream": stream, "first": first, "chain": chain.hex(), "about": about}
    text = json.dumps(told, ensure_ascii=False).encode()
    body = HEADER.pack(HEADER_MAGIC, len(text)) + text
    return body + checksum(body)


class Bad(Exception):  # noqa: N818 - not an error by itself: who reads decides
    """Bytes that are no record; `where` they begin."""

    def __init__(self, where: int, why: str) -> None:
        super().__init__(why)
        self.where = where


class Place(NamedTuple):
    """A sound record among bytes, not read yet."""

    number: int
    synced: int
    before: bytes
    own: bytes
    meta: memoryview
    data: memoryview
    end: int


def place_at(data: memoryview, start: int) -> Place:
    """Return the record that begins at a place; Bad if none does."""
    if len(data) - start < HEAD.size:
        raise Bad(start, "its last record is cut short")
    magic, meta, arrays, number, synced, before = HEAD.unpack_from(data, start)
    if magic != MAGIC or meta + arrays > LARGEST:
        raise Bad(start, "bytes that are no record")
    end = start + HEAD.size + meta + arrays
    if end + SUM > len(data):
        raise Bad(start, "its last record is cut short")
    own = bytes(data[end : end + SUM])
    if checksum(data[start:end]) != own:
        raise Bad(start, "a record does not match its checksum")
    text = start + HEAD.size
    return Place(number, synced, before, own, data[text : text + meta], data[text + meta : end], end + SUM)


def decode(place: Place) -> Record:
    """Read a sound record."""
    meta = json.loads(bytes(place.meta))
    arrays, at = {}, 0
    for name, *shape in meta.pop("arrays"):
        size = 4 * int(np.prod(shape))
        values = np.frombuffer(place.data[at : at + size], "<f4").reshape(shape)
        arrays[name], at = values.astype(np.float32), at + size
    return Record(meta.pop("kind"), meta, arrays)


@dataclass(frozen=True)
class SegmentHeader:
    """What a segment says of itself."""

    stream: str
    first: int
    chain: bytes
    about: Mapping[str, Any]
    format: int
    length: int  # of the header


def read_header(data: memoryview) -> SegmentHeader:
    """Read a segment's header; Bad if it is none, SessionError if a later version wrote it."""
    if len(data) < HEADER.size + SUM:
        raise Bad(0, "its header is cut short")
    magic, size = HEADER.unpack_from(data, 0)
    end = HEADER.size + size
    if magic != HEADER_MAGIC or end + SUM > len(data) or checksum(data[:end]) != bytes(data[end : end + SUM]):
        raise Bad(0, "its header does not match its checksum")
    told = json.loads(bytes(data[HEADER.size : end]))
    if told["format"] > current_format():
        given, known = told["format"], current_format()
        raise SessionError(f"the journal has the format {given}; this version reads up to {known}. Use the later one.")
    return SegmentHeader(
        told["stream"], told["first"], bytes.fromhex(told["chain"]), told["about"], told["format"], end + SUM
    )


# Format n becomes n + 1 by entry n - 1, record by record. Entries are only ever appended.
MIGRATIONS: tuple[Callable[[Record], Record], ...] = ()


def current_format() -> int:
    """Return the format that this version writes."""
    return 1 + len(MIGRATIONS)


def migrated(record: Record, format: int) -> Record:
    """Bring a record of an older format up to date."""
    for step in MIGRATIONS[format - 1 :]:
        record = step(record)
    return record


def segments(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a folder with their first numbers, in order."""
    found = []
    for path in folder.glob("journal-*.log"):
        number = path.stem.removeprefix("journal-")
        if number.isdigit():
            found.append((int(number), path))
    return sorted(found)


def segment_path(folder: Path, first: int) -> Path:
    """Return where the segment that begins with a number lies."""
    return folder / f"journal-{first:012d}.log"


def vouched(data: memoryview, start: int, number: int) -> bool:
    """Whether a sound record after some bytes says that a number was on disk before it was written."""
    at = start
    whole = bytes(data)
    while (at := whole.find(MAGIC, at + 1)) >= 0:
        try:
            place = place_at(data, at)
        except Bad:
            continue
        if place.synced >= number:
            return True
    return False
