"""Appends records to a journal: a call writes all of its records or none, and syncs them by a policy.

A journal is a row of segment files, `journal-<number of the first record>.log`. Each snapshot begins a new segment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cosmic_tta.core import files
from cosmic_tta.core.errors import SessionError, StorageError
from cosmic_tta.sessions.journal.format import Record, checksum, encode, encode_header, segment_path
from cosmic_tta.sessions.journal.reader import JournalTail

MAX_SEGMENT_BYTES = 64 << 20  # a longer segment is followed by another
SYNC_INTERVAL = 1.0  # seconds between two syncs with the policy `everysec`
SyncPolicy = Literal["always", "everysec"]
SYNC_POLICIES = ("always", "everysec")


class JournalPosition(NamedTuple):
    """An end of the journal that `retract` can return to."""

    number: int
    chain: bytes
    length: int  # of the segment


class JournalWriter:
    """The end of a journal, open for writing. Two threads may use it: one appends, one syncs."""

    def __init__(
        self,
        folder: Path,
        stream_id: str,
        metadata: Mapping[str, Any],
        tail: JournalTail,
        policy: SyncPolicy = "always",
    ) -> None:
        self.folder, self.stream_id, self.metadata, self.policy = folder, stream_id, metadata, policy
        self.number, self.chain = tail.number, tail.chain
        self._path, self._length = tail.path, tail.valid_bytes
        self._synced, self._synced_length = tail.number, tail.valid_bytes
        self._unsynced = bytearray()  # written since the last sync
        self._needs_repair = False  # the file may hold other bytes than it should
        self._next_segment: tuple[Path, int] | None = None  # exists but is not open yet; with its length
        self._last_sync = time.monotonic()
        self._lock = threading.RLock()
        try:
            self._handle = files.open_to_append(tail.path)
        except OSError as error:
            raise files.storage_error("open", tail.path, error) from error
        try:
            if tail.torn_bytes:
                self._save_torn_tail(tail)
                files.truncate(self._handle, tail.valid_bytes)
            else:
                files.sync(self._handle)  # what was read may not be on disk yet
        except OSError as error:
            files.close(self._handle)
            raise files.storage_error("open", tail.path, error) from error

    @classmethod
    def create(
        cls,
        folder: Path,
        stream_id: str,
        metadata: Mapping[str, Any],
        number: int = 0,
        policy: SyncPolicy = "always",
    ) -> JournalWriter:
        """Begin a journal; its first record gets the number after `number`."""
        chain = checksum(stream_id.encode())
        path = segment_path(folder, number + 1)
        header = encode_header(stream_id, number + 1, chain, metadata)
        files.write_atomic(path, header)
        return cls(folder, stream_id, metadata, JournalTail(number, chain, path, len(header)), policy)

    @property
    def synced(self) -> int:
        """The last number that is on disk for sure."""
        return self._synced

    @property
    def position(self) -> JournalPosition:
        """The current end, for `retract`."""
        return JournalPosition(self.number, self.chain, self._length)

    @property
    def closed(self) -> bool:
        """Whether the journal can no longer be written to."""
        return self._handle < 0

    @property
    def segment_is_full(self) -> bool:
        """Whether the next record belongs into a new segment."""
        return self._length >= MAX_SEGMENT_BYTES

    def append(self, records: Sequence[Record]) -> list[int]:
        """Write all records or none, sync them as the policy says, and return their numbers."""
        with self._lock:
            self._repair()
            number, chain, content = self.number, self.chain, bytearray()
            for record in records:
                number += 1
                encoded, chain = encode(record, number, self._synced, chain)
                content += encoded
            before = len(self._unsynced)
            sync = self.policy == "always" or time.monotonic() - self._last_sync >= SYNC_INTERVAL
            self._unsynced += content
            try:
                files.write_all(self._handle, bytes(content))
                if sync:
                    files.sync(self._handle)
            except OSError as error:
                del self._unsynced[before:]
                self._needs_repair = True
                with suppress(StorageError):  # the next write tries again
                    self._repair()
                raise files.storage_error("write to", self._path, error) from error
            self._length += len(content)
            first, self.number, self.chain = self.number + 1, number, chain
            if sync:
                self._mark_synced()
            return list(range(first, number + 1))

    def retract(self, position: JournalPosition) -> None:
        """Remove the records behind a position; none of them may have been acknowledged."""
        with self._lock:
            self.number, self.chain, self._length = position
            if self._length < self._synced_length:
                self._synced, self._synced_length = self.number, self._length
                self._unsynced.clear()
            else:
                del self._unsynced[self._length - self._synced_length :]
            self._needs_repair = True
            self._repair()

    def flush(self, *, only_if_due: bool = False) -> None:
        """Sync everything; with `only_if_due`, only if the last sync is a sync interval ago."""
        with self._lock:
            if self._handle < 0 or (only_if_due and time.monotonic() - self._last_sync < SYNC_INTERVAL):
                return
            self._repair()
            if not self._unsynced:
                return
            try:
                files.sync(self._handle)
            except OSError as error:
                self._needs_repair = True
                raise files.storage_error("write to", self._path, error) from error
            self._mark_synced()

    def rotate(self) -> None:
        """Begin a new segment, unless this one is empty."""
        with self._lock:
            self.flush()
            path = segment_path(self.folder, self.number + 1)
            if path == self._path:
                return
            header = encode_header(self.stream_id, self.number + 1, self.chain, self.metadata)
            try:
                files.write_atomic(path, header)
            except StorageError:
                if path.exists():  # renamed, but its folder is not synced: no record may follow in the old segment
                    self._next_segment = path, len(header)
                raise
            self._next_segment = path, len(header)
            self._repair()

    def close(self) -> None:
        """Sync and close; if the disk refuses, the file is closed all the same and the error is raised."""
        with self._lock:
            if self._handle < 0:
                return
            try:
                self.flush()
            finally:
                handle, self._handle = self._handle, -1
                files.close(handle)

    def abandon(self) -> None:
        """Close without a sync, as if the process were killed."""
        with self._lock:
            if self._handle >= 0:
                handle, self._handle = self._handle, -1
                files.close(handle)

    def _mark_synced(self) -> None:
        self._synced, self._synced_length, self._last_sync = self.number, self._length, time.monotonic()
        self._unsynced.clear()

    def _repair(self) -> None:
        """After a failure, restore the bytes that the file should hold; raise if the disk still refuses."""
        if self._handle < 0:
            raise SessionError("the journal is closed; open the session again.")
        if self._next_segment is not None:
            self._switch_segment(*self._next_segment)
        if not self._needs_repair:
            return
        try:
            files.truncate(self._handle, self._synced_length)
            if self._unsynced:
                files.write_all(self._handle, bytes(self._unsynced))
                files.sync(self._handle)
        except OSError as error:
            raise files.storage_error("write to", self._path, error) from error
        self._needs_repair = False
        self._mark_synced()

    def _switch_segment(self, path: Path, length: int) -> None:
        """Continue in the next segment; the one before it is synced."""
        try:
            files.sync_folder(self.folder)
            handle = files.open_to_append(path)
        except OSError as error:
            raise files.storage_error("open", path, error) from error
        files.close(self._handle)
        self._handle, self._path, self._next_segment = handle, path, None
        self._length = self._synced_length = length

    def _save_torn_tail(self, tail: JournalTail) -> None:
        """Keep the bytes of a torn tail in a file of their own, for inspection."""
        with suppress(StorageError):  # they were never acknowledged
            files.write_atomic(tail.path.with_suffix(".torn"), files.read_all(tail.path)[tail.valid_bytes :])
