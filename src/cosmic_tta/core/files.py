"""Durable file operations. Every write of the package that must survive a crash goes through this module.

A file that is written by `write_atomic` is complete, or the previous file is still there.
An operation that the disk refuses raises a `StorageError`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from cosmic_tta.core.errors import LockedError, StorageError

try:
    import fcntl
except ImportError:  # pragma: no cover - without it, two writers of one folder are not noticed
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Build the error for an operation that the disk refused."""
    return StorageError(f"cannot {action} {str(path)!r}: {error.strerror or error}. Nothing of it was changed.")


def write_atomic(path: str | os.PathLike[str], content: bytes | str, *, durable: bool = True) -> None:
    """Write a whole file, or leave the previous one as it was.

    The content goes to a temporary file in the same folder, which is then renamed.

    Args:
        path: The file. Its folder must exist.
        content: Bytes, or text that is encoded as UTF-8. A lone surrogate is written as a backslash escape.
        durable: Wait until file and folder are on disk, so that the file survives a power cut.

    Raises:
        StorageError: The disk refused. The temporary file is removed.

    Examples:
        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_atomic(folder / "a.json", json.dumps({"seed": 0}))
        >>> (folder / "a.json").read_text(), len(list(folder.iterdir()))
        ('{"seed": 0}', 1)
    """
    path = Path(path)
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(handle, data)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(unfinished, path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            os.unlink(unfinished)
        raise storage_error("write", path, error) from error


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes to an open file, however few the system takes per call."""
    rest = memoryview(content)
    while rest:
        written = os.write(handle, rest)
        if written <= 0:
            raise OSError(5, "the system took no bytes")
        rest = rest[written:]


def read_all(path: Path) -> bytes:
    """Read a whole file.

    Raises:
        FileNotFoundError: There is no such file.
        StorageError: The disk refused.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive a power cut, where the system supports it."""
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
    """Wait until everything written to an open file is on disk."""
    os.fsync(handle)


def truncate(handle: int, length: int) -> None:
    """Truncate an open file, and wait until that is on disk."""
    os.ftruncate(handle, length)
    os.fsync(handle)


def truncate_file(path: Path, length: int) -> None:
    """Truncate a file that is not open."""
    try:
        handle = open_to_append(path)
        try:
            truncate(handle, length)
        finally:
            os.close(handle)
    except OSError as error:
        raise storage_error("truncate", path, error) from error


def close(handle: int) -> None:
    """Close a file."""
    os.close(handle)


def move(path: Path, to: Path) -> None:
    """Rename a file or folder durably."""
    try:
        os.replace(path, to)
        sync_folder(to.parent)
    except OSError as error:
        raise storage_error("rename", path, error) from error


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error("remove", path, error) from error


def clear_unfinished(folder: Path) -> None:
    """Remove the temporary files of a process that was killed while it wrote."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            os.unlink(path)


class Lock:
    """One writer per folder: a file that the process keeps locked while it runs, with its process number inside."""

    def __init__(self, folder: Path, what: str) -> None:
        path = folder / "lock"
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise storage_error("lock", path, error) from error
        if fcntl is not None:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = _owner(self._handle)
                os.close(self._handle)
                raise LockedError(
                    f"{what} {str(folder)!r} is in use{owner}; one process per folder: end that one, or use another."
                ) from error
        with suppress(OSError):  # the number only informs people
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let other processes write."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _owner(handle: int) -> str:
    try:
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    except OSError:
        number = ""
    return f" by process {number}" if number.isdigit() else ""


def make_folder(path: Path) -> None:
    """Make a folder that only its owner may read."""
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise storage_error("make", path, error) from error


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a whole folder, or nothing: fill the temporary folder that this gives.

    When the block ends, all files are synced and the temporary folder is renamed. After an error it is removed.

    Args:
        path: The folder to make. It must not exist; missing parents are made.

    Yields:
        A temporary folder beside it.

    Raises:
        StorageError: The disk refused to make or rename the folder.

    Examples:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "pack"
        >>> with new_folder(target) as folder:
        ...     _ = (folder / "a.txt").write_text("all of it")
        >>> [file.name for file in target.iterdir()], [file.name for file in target.parent.iterdir()]
        (['a.txt'], ['pack'])
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise storage_error("make", path, error) from error
    try:
        yield unfinished
        _sync_files(unfinished)
        move(unfinished, path)
    except BaseException:
        remove_folder(unfinished)
        raise


def _sync_files(folder: Path) -> None:
    for file in (path for path in folder.rglob("*") if path.is_file()):
        handle = os.open(file, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    sync_folder(folder)


def remove_folder(path: Path) -> None:
    """Remove a folder and its contents, as far as the disk allows."""
    shutil.rmtree(path, ignore_errors=True)


def quarantine(path: Path) -> None:
    """Rename a damaged file to `*.damaged`, so that nothing reads it and people still can."""
    move(path, path.with_name(f"{path.name}.damaged"))
