"""The records of a journal, read in order and checked; where they end, and where they are damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_tta import disk
from cosmic_tta.errors import SessionDamaged, SessionError
from cosmic_tta.records import (
    Bad,
    Record,
    SegmentHeader,
    decode,
    encode_header,
    migrated,
    place_at,
    read_header,
    segment_path,
    segments,
    vouched,
)


class Numbered(NamedTuple):
    """A record as it stands in the journal."""

    number: int
    chain: bytes  # its checksum
    record: Record
    path: Path  # of its segment
    start: int  # where it begins there


class Tail(NamedTuple):
    """Where a journal ends: the last sound record, and what lies behind it."""

    number: int
    chain: bytes
    path: Path
    length: int  # of the sound part of that segment
    torn: int  # bytes behind it that were never promised


class Damage(NamedTuple):
    """Where a journal is damaged."""

    path: Path | None  # the segment; None: it is missing
    length: int  # of its sound part; 0: not even the header
    after: int  # the last sound number before it
    chain: bytes | None  # and its checksum
    why: str


class Reader:
    """The records of a folder from some number on; afterwards `tail` or `damage` says how it ended."""

    def __init__(self, folder: Path, stream: str, after: int, chain: bytes | None) -> None:
        self.folder, self.stream, self.after, self.chain = folder, stream, after, chain
        self.about: Mapping[str, Any] | None = None  # of the first segment
        self.tail: Tail | None = None
        self.damage: Damage | None = None
        self._number, self._link = after, b""

    def __iter__(self) -> Iterator[Numbered]:
        listed = segments(self.folder)
        needed = [i for i, (first, _) in enumerate(listed) if first <= self.after + 1]
        if not needed:
            oldest = f"it begins with {listed[0][0]}" if listed else "there is none"
            why = f"it does not reach back to event {self.after + 1}: {oldest}"
            self.damage = Damage(None, 0, self.after, self.chain, why)
            return
        listed = listed[needed[-1] :]
        self._number, self._link = listed[0][0] - 1, b""
        for index, (first, path) in enumerate(listed):
            yield from self._segment(path, first, last=index == len(listed) - 1)
            if self.damage is not None:
                return
        if self._number < self.after:
            self.tail = None
            why = f"it ends with event {self._number}, but a snapshot was taken at {self.after}"
            self.damage = Damage(None, 0, self.after, self.chain, why)

    def _segment(self, path: Path, first: int, *, last: bool) -> Iterator[Numbered]:
        try:
            data = memoryview(disk.read_all(path))
            header = read_header(data)
        except SessionError:
            raise
        except (Bad, FileNotFoundError, ValueError, KeyError, TypeError) as error:
            self._refuse(path, 0, str(error))
            return
        wrong = self._misfit(header, first)
        if wrong:
            self._refuse(path, 0, wrong)
            return
        self.about = self.about or header.about
        self._link, at = header.chain, header.length
        if not self._meets(path):
            return
        while at < len(data):
            try:
                place = place_at(data, at)
                if place.number != self._number + 1 or place.before != self._link:
                    raise Bad(at, f"record {place.number} does not follow record {self._number}")
                record = migrated(decode(place), header.format)
            except (Bad, ValueError, KeyError, TypeError) as error:
                if last and self._number >= self.after and not vouched(data, at, self._number + 1):
                    self.tail = Tail(self._number, self._link, path, at, len(data) - at)
                else:
                    self._refuse(path, at, str(error))
                return
            start, at = at, place.end
            self._number, self._link = place.number, place.own
            if not self._meets(path):
                return
            if place.number > self.after:
                yield Numbered(place.number, place.own, record, path, start)
        self.tail = Tail(self._number, self._link, path, at, 0)

    def _meets(self, path: Path) -> bool:
        """Whether the journal goes the snapshot's way, where it passes it."""
        if self._number == self.after and self.chain not in (None, self._link):
            self._refuse(path, 0, "it continues another history than the snapshot's")
            return False
        return True

    def _refuse(self, path: Path, length: int, why: str) -> None:
        known = self._number > self.after
        after, chain = (self._number, self._link) if known else (self.after, self.chain)
        self.tail, self.damage = None, Damage(path, length if known else 0, after, chain, f"{path.name}: {why}")

    def _misfit(self, header: SegmentHeader, first: int) -> str:
        if header.stream != self.stream:
            return "it belongs to another stream"
        if header.first != first or first != self._number + 1:
            return f"it begins with {header.first}, expected {self._number + 1}"
        if self._link and header.chain != self._link:
            return "it does not continue the segment before it"
        return ""


def cut_off(folder: Path, stream: str, about: Mapping[str, Any], damage: Damage) -> None:
    """Cut a journal off where it is damaged; what comes from there on is laid aside."""
    assert damage.chain is not None  # whoever recovers began at a snapshot
    for first, path in segments(folder):
        if first > damage.after + 1 or (path == damage.path and not damage.length):
            disk.lay_aside(path)
    if damage.path is not None and damage.length:
        disk.write_whole(damage.path.with_name(f"{damage.path.name}.damaged"), disk.read_all(damage.path))
        disk.shorten(damage.path, damage.length)
    else:
        header = encode_header(stream, damage.after + 1, damage.chain, about)
        disk.write_whole(segment_path(folder, damage.after + 1), header)


def damaged(damage: Damage) -> SessionDamaged:
    """Build the error for a damaged journal."""
    return SessionDamaged(
        f"the journal is damaged: {damage.why}. Everything up to event {damage.after} can be recovered.", damage.after
    )
