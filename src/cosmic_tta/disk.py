"""Files that must last: every call that writes goes through here, and fails with one clean error.

Whatever is written whole is there whole, or what was there before still is.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from cosmic_tta.errors import LockedError, StorageError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system: two writers at once are then the user's own care
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"


def refusal(doing: str, path: Path, error: OSError) -> StorageError:
    """Build the error for a disk that refused."""
    return StorageError(f"cannot {doing} {str(path)!r}: {error.strerror or error}. Nothing of it was changed.")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file: to a temporary name, synced, renamed, its folder synced."""
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(unfinished, path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            os.unlink(unfinished)
        raise refusal("write", path, error) from error


def write_all(handle: int, content: bytes) -> None:
    """Write all of it, however few bytes the system takes at a time."""
    rest = memoryview(content)
    while rest:
        taken = os.write(handle, rest)
        if taken <= 0:
            raise OSError(5, "the system took no bytes")
        rest = rest[taken:]


def read_all(path: Path) -> bytes:
    """Read a file; one that is not there raises FileNotFoundError, a disk that refuses a StorageError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals last through a power cut, where the system knows how."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_to_append(path: Path) -> int:
    """Open a file to write at its end."""
    return os.open(path, os.O_RDWR | os.O_APPEND)


def sync(handle: int) -> None:
    """Wait until what was written is on disk."""
    os.fsync(handle)


def cut(handle: int, length: int) -> None:
    """Cut a file to a length, and wait until that is on disk."""
    os.ftruncate(handle, length)
    os.fsync(handle)


def shorten(path: Path, length: int) -> None:
    """Cut a file that is not open."""
    try:
        handle = open_to_append(path)
        try:
            cut(handle, length)
        finally:
            os.close(handle)
    except OSError as error:
        raise refusal("cut", path, error) from error


def close(handle: int) -> None:
    """Close a file."""
    os.close(handle)


def move(path: Path, to: Path) -> None:
    """Rename, for good."""
    try:
        os.replace(path, to)
        sync_folder(to.parent)
    except OSError as error:
        raise refusal("rename", path, error) from error


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refusal("remove", path, error) from error


def clear_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            os.unlink(path)


class Lock:
    """One writer a folder: a file that the process holds locked while it lives, with its number inside."""

    def __init__(self, folder: Path, what: str) -> None:
        path = folder / "lock"
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise refusal("lock", path, error) from error
        if fcntl is not None:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(self._handle)
                os.close(self._handle)
                raise LockedError(
                    f"{what} {str(folder)!r} is in use{holder}; one process a folder: end that one, or use another."
                ) from error
        with suppress(OSError):  # the number is for people
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others in."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _holder(handle: int) -> str:
    try:
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    except OSError:
        number = ""
    return f" by process {number}" if number.isdigit() else ""


def make_folder(path: Path) -> None:
    """Make a folder."""
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise refusal("make", path, error) from error


def remove_folder(path: Path) -> None:
    """Remove a folder and what is in it, as far as the disk lets us."""
    shutil.rmtree(path, ignore_errors=True)


def lay_aside(path: Path) -> None:
    """Rename a damaged file, so that nobody reads it and the curious still can."""
    move(path, path.with_name(f"{path.name}.damaged"))
