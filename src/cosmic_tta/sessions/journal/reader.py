"""Reads the records of a journal in order, checks them, and reports where they end or are damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_tta.core import files
from cosmic_tta.core.errors import SessionDamagedError, SessionError
from cosmic_tta.sessions.journal.format import (
    InvalidRecord,
    Record,
    SegmentHeader,
    decode,
    encode_header,
    read_header,
    segment_path,
    segments,
    span_at,
    was_synced,
)


class JournalEntry(NamedTuple):
    """A record and where the journal holds it."""

    number: int
    chain: bytes  # checksum of the record
    record: Record
    path: Path  # of the segment
    start: int  # offset in the segment


class JournalTail(NamedTuple):
    """Where a journal ends: its last valid record, and the bytes behind it."""

    number: int
    chain: bytes
    path: Path
    valid_bytes: int  # of the last segment
    torn_bytes: int = 0  # behind them, never acknowledged


class JournalDamage(NamedTuple):
    """Where acknowledged records of a journal are damaged."""

    path: Path | None  # of the segment; None if it is missing
    valid_bytes: int  # of that segment; 0 if not even the header can be used
    last_valid: int  # number of the last valid record before the damage
    chain: bytes | None  # checksum of that record
    reason: str


class JournalReader:
    """Iterates over the records of a folder behind an event; afterwards either `tail` or `damage` is set."""

    def __init__(self, folder: Path, stream_id: str, after: int, chain: bytes | None) -> None:
        self.folder, self.stream_id, self.after, self.chain = folder, stream_id, after, chain
        self.metadata: Mapping[str, Any] | None = None  # of the first segment
        self.tail: JournalTail | None = None
        self.damage: JournalDamage | None = None
        self._number, self._chain = after, b""  # of the last record that was read

    def __iter__(self) -> Iterator[JournalEntry]:
        """Yield the records with numbers above `after`."""
        listed = segments(self.folder)
        needed = [i for i, (first, _) in enumerate(listed) if first <= self.after + 1]
        if not needed:
            oldest = f"it begins with event {listed[0][0]}" if listed else "there is none"
            reason = f"it does not reach back to event {self.after + 1}: {oldest}"
            self.damage = JournalDamage(None, 0, self.after, self.chain, reason)
            return
        listed = listed[needed[-1] :]
        self._number, self._chain = listed[0][0] - 1, b""
        for index, (first, path) in enumerate(listed):
            yield from self._segment(path, first, last=index == len(listed) - 1)
            if self.damage is not None:
                return
        if self._number < self.after:
            self.tail = None
            reason = f"it ends with event {self._number}, but a snapshot was taken at {self.after}"
            self.damage = JournalDamage(None, 0, self.after, self.chain, reason)

    def _segment(self, path: Path, first: int, *, last: bool) -> Iterator[JournalEntry]:
        try:
            data = memoryview(files.read_all(path))
            header = read_header(data, f"{str(path)!r}")
        except SessionError:
            raise
        except (InvalidRecord, FileNotFoundError, ValueError, KeyError, TypeError) as error:
            self._set_damage(path, 0, str(error))
            return
        mismatch = self._header_mismatch(header, first)
        if mismatch:
            self._set_damage(path, 0, mismatch)
            return
        self.metadata = self.metadata or header.metadata
        self._chain, offset = header.chain, header.length
        if not self._agrees_with_snapshot(path):
            return
        while offset < len(data):
            try:
                span = span_at(data, offset)
                if span.number != self._number + 1 or span.previous_checksum != self._chain:
                    raise InvalidRecord(f"record {span.number} does not follow record {self._number}")
                record = decode(span)
            except (InvalidRecord, ValueError, KeyError, TypeError) as error:
                if last and self._number >= self.after and not was_synced(data, offset, self._number + 1):
                    self.tail = JournalTail(self._number, self._chain, path, offset, len(data) - offset)
                else:
                    self._set_damage(path, offset, str(error))
                return
            start, offset = offset, span.end
            self._number, self._chain = span.number, span.checksum
            if not self._agrees_with_snapshot(path):
                return
            if span.number > self.after:
                yield JournalEntry(span.number, span.checksum, record, path, start)
        self.tail = JournalTail(self._number, self._chain, path, offset)

    def _agrees_with_snapshot(self, path: Path) -> bool:
        """Compare the checksum with the snapshot's where the journal passes it."""
        if self._number == self.after and self.chain not in (None, self._chain):
            self._set_damage(path, 0, "its records are not those that the snapshot was taken after")
            return False
        return True

    def _set_damage(self, path: Path, valid_bytes: int, reason: str) -> None:
        past = self._number > self.after
        last_valid, chain = (self._number, self._chain) if past else (self.after, self.chain)
        self.tail = None
        self.damage = JournalDamage(path, valid_bytes if past else 0, last_valid, chain, f"{path.name}: {reason}")

    def _header_mismatch(self, header: SegmentHeader, first: int) -> str:
        if header.stream_id != self.stream_id:
            return "it belongs to another stream"
        if header.first != first or first != self._number + 1:
            return f"it begins with event {header.first}; expected {self._number + 1}"
        if self._chain and header.chain != self._chain:
            return "it does not continue the segment before it"
        return ""


def cut_at_damage(folder: Path, stream_id: str, metadata: Mapping[str, Any], damage: JournalDamage) -> None:
    """End a journal before its damage; everything from there on is renamed to `.damaged`."""
    assert damage.chain is not None  # a recovery begins at a snapshot, which has one
    for first, path in segments(folder):
        if first > damage.last_valid + 1 or (path == damage.path and not damage.valid_bytes):
            files.quarantine(path)
    if damage.path is not None and damage.valid_bytes:
        files.write_atomic(damage.path.with_name(f"{damage.path.name}.damaged"), files.read_all(damage.path))
        files.truncate_file(damage.path, damage.valid_bytes)
    else:
        header = encode_header(stream_id, damage.last_valid + 1, damage.chain, metadata)
        files.write_atomic(segment_path(folder, damage.last_valid + 1), header)


def damage_error(damage: JournalDamage) -> SessionDamagedError:
    """Build the error for a damaged journal."""
    return SessionDamagedError(
        f"the journal is damaged: {damage.reason}. Everything up to event {damage.last_valid} can be recovered.",
        damage.last_valid,
    )
