"""An append-only journal in segment files: what is written is all there or not at all, and synced as told.

A segment `journal-<first number>.log` is followed by the next at every snapshot. `records.py` has the bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from cosmic_tta import disk
from cosmic_tta.errors import SessionError, StorageError
from cosmic_tta.records import Record, checksum, encode, encode_header, segment_path
from cosmic_tta.replay import Tail

SEGMENT_BYTES = 64 << 20  # a longer segment is followed by another
SECOND = 1.0
Policy = Literal["always", "everysec"]
POLICIES = ("always", "everysec")


class Journal:
    """The end of a journal, open for writing. Calls may come from two threads: one appends, one syncs."""

    def __init__(
        self, folder: Path, stream: str, about: Mapping[str, Any], tail: Tail, policy: Policy = "always"
    ) -> None:
        self.folder, self.stream, self.about, self.policy = folder, stream, about, policy
        self.number, self.chain = tail.number, tail.chain
        self._path, self._length = tail.path, tail.length
        self._synced, self._synced_length = tail.number, tail.length
        self._waiting = bytearray()  # what was written since the last sync
        self._doubtful = False  # whether the file may hold other bytes than it should
        self._next: tuple[Path, int] | None = None  # a segment that exists and is not open yet, and its length
        self._when = time.monotonic()
        self._lock = threading.RLock()
        try:
            self._handle = disk.open_to_append(tail.path)
        except OSError as error:
            raise disk.refusal("open", tail.path, error) from error
        try:
            if tail.torn:
                self._keep_torn(tail)
                disk.cut(self._handle, tail.length)
            else:
                disk.sync(self._handle)  # what was read may not be on disk yet
        except OSError as error:
            disk.close(self._handle)
            raise disk.refusal("open", tail.path, error) from error

    @classmethod
    def create(
        cls, folder: Path, stream: str, about: Mapping[str, Any], number: int = 0, policy: Policy = "always"
    ) -> Journal:
        """Begin a journal whose next record has the number after this one."""
        chain = checksum(stream.encode())
        path = segment_path(folder, number + 1)
        header = encode_header(stream, number + 1, chain, about)
        disk.write_whole(path, header)
        return cls(folder, stream, about, Tail(number, chain, path, len(header), 0), policy)

    @property
    def synced(self) -> int:
        """The last number that is on disk for sure."""
        return self._synced

    def append(self, records: Sequence[Record]) -> list[int]:
        """Write records, all or none, and sync them as the policy says; return their numbers."""
        with self._lock:
            self._mend()
            number, chain, content = self.number, self.chain, bytearray()
            for record in records:
                number += 1
                encoded, chain = encode(record, number, self._synced, chain)
                content += encoded
            before = len(self._waiting)
            due = self.policy == "always" or time.monotonic() - self._when >= SECOND
            self._waiting += content
            try:
                disk.write_all(self._handle, bytes(content))
                if due:
                    disk.sync(self._handle)
            except OSError as error:
                del self._waiting[before:]
                self._doubtful = True
                self._try_to_mend()
                raise disk.refusal("write to", self._path, error) from error
            self._length += len(content)
            first, self.number, self.chain = self.number + 1, number, chain
            if due:
                self._is_synced()
            return list(range(first, number + 1))

    def retract(self, number: int, chain: bytes, length: int) -> None:
        """Take back the last records, which nobody has been answered yet."""
        with self._lock:
            self.number, self.chain, self._length = number, chain, length
            if length < self._synced_length:
                self._synced, self._synced_length = number, length
                self._waiting.clear()
            else:
                del self._waiting[length - self._synced_length :]
            self._doubtful = True
            self._mend()

    @property
    def mark(self) -> tuple[int, bytes, int]:
        """What `retract` needs to come back to here."""
        return self.number, self.chain, self._length

    def flush(self, *, due: bool = False) -> None:
        """Wait until all that was written is on disk; with `due`, only if the last time is a second ago."""
        with self._lock:
            if self._handle < 0 or (due and time.monotonic() - self._when < SECOND):
                return
            self._mend()
            if not self._waiting:
                return
            try:
                disk.sync(self._handle)
            except OSError as error:
                self._doubtful = True
                raise disk.refusal("write to", self._path, error) from error
            self._is_synced()

    def rotate(self) -> None:
        """Begin a new segment, unless this one is empty."""
        with self._lock:
            self.flush()
            path = segment_path(self.folder, self.number + 1)
            if path == self._path:
                return
            header = encode_header(self.stream, self.number + 1, self.chain, self.about)
            try:
                disk.write_whole(path, header)
            except StorageError:
                if path.exists():  # renamed, but the folder not synced: nobody may go on in the segment before it
                    self._next = path, len(header)
                raise
            self._next = path, len(header)
            self._mend()

    @property
    def closed(self) -> bool:
        """Whether it can no longer be written to."""
        return self._handle < 0

    @property
    def is_long(self) -> bool:
        """Whether it is time for another segment."""
        return self._length >= SEGMENT_BYTES

    def close(self) -> None:
        """Sync and close; a disk that refuses is told, and the file is closed all the same."""
        with self._lock:
            if self._handle < 0:
                return
            try:
                self.flush()
            finally:
                handle, self._handle = self._handle, -1
                disk.close(handle)

    def abandon(self) -> None:
        """Close without another word to the disk, as a process does that is killed."""
        with self._lock:
            if self._handle >= 0:
                handle, self._handle = self._handle, -1
                disk.close(handle)

    def _is_synced(self) -> None:
        self._synced, self._synced_length, self._when = self.number, self._length, time.monotonic()
        self._waiting.clear()

    def _try_to_mend(self) -> None:
        with suppress(StorageError):  # the next one who writes tries again
            self._mend()

    def _mend(self) -> None:
        """After a failure, bring the file back to what it should hold; raise if the disk still refuses."""
        if self._handle < 0:
            raise SessionError("the journal is closed; open the session again.")
        if self._next is not None:
            self._enter(*self._next)
        if not self._doubtful:
            return
        try:
            disk.cut(self._handle, self._synced_length)
            if self._waiting:
                disk.write_all(self._handle, bytes(self._waiting))
                disk.sync(self._handle)
        except OSError as error:
            raise disk.refusal("write to", self._path, error) from error
        self._doubtful = False
        self._is_synced()

    def _enter(self, path: Path, length: int) -> None:
        """Go on in the next segment; the one before it is synced."""
        try:
            disk.sync_folder(self.folder)
            handle = disk.open_to_append(path)
        except OSError as error:
            raise disk.refusal("open", path, error) from error
        disk.close(self._handle)
        self._handle, self._path, self._next = handle, path, None
        self._length = self._synced_length = length

    def _keep_torn(self, tail: Tail) -> None:
        """Lay a torn tail aside, for the curious."""
        with suppress(StorageError):  # it was never promised
            disk.write_whole(tail.path.with_suffix(".torn"), disk.read_all(tail.path)[tail.length :])
