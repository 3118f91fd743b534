"""An extraction that is not finished, on disk: its arrays, and a journal of the chunks in them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import files
from cosmic_tta.core.errors import PackError

try:
    import fcntl
except ImportError:  # pragma: no cover - without it, two runs of one pack are not noticed
    fcntl = None  # type: ignore[assignment]

PLAN = "plan.json"
FORMAT = 2


class PartialPack:
    """The folder `PACK.partial`: format and settings in `plan.json`, `<name>.npy` for each array, `journal.jsonl`."""

    def __init__(self, folder: Path, arrays: dict[str, np.memmap[Any, Any]], journal: IO[str]) -> None:
        self.folder, self.arrays, self._journal = folder, arrays, journal
        self.done: set[int] = set()  # numbers of chunks
        self.failed: dict[int, str] = {}  # position of an image → its problem

    @staticmethod
    def folder_of(pack: Path) -> Path:
        """Return the folder that holds a pack until it is finished."""
        return pack.with_name(f"{pack.name}.partial")

    @classmethod
    def is_leftover(cls, pack: Path, settings: Mapping[str, Any]) -> bool:
        """Return whether a finished pack still has its partial folder, made with the same settings."""
        folder = cls.folder_of(pack)
        file = folder / PLAN
        return folder.is_dir() and (not file.exists() or _read_plan(file) == _plan(settings))

    @classmethod
    def remove(cls, pack: Path) -> None:
        """Remove a pack's partial folder, its settings first: a folder without them is never resumed."""
        folder = cls.folder_of(pack)
        files.remove(folder / PLAN)
        files.remove_folder(folder)

    @classmethod
    def open(cls, pack: Path, settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], store: str) -> Self:
        """Open a pack's partial folder, or make it. One that was made with other settings is refused."""
        folder = cls.folder_of(pack)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "journal.jsonl"
        journal = open(file, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by __exit__
        try:
            _lock(journal, folder)
            file = folder / PLAN
            if file.exists():
                _check_same_settings(_read_plan(file), settings, folder)
            else:
                journal.truncate(0)
                for name, shape in shapes.items():
                    np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.dtype(store), shape=shape)
                files.write_atomic(file, json.dumps(_plan(settings), indent=1))
            arrays = {name: _reopen(folder / f"{name}.npy", shape, store) for name, shape in shapes.items()}
        except BaseException:
            journal.close()
            raise
        partial = cls(folder, arrays, journal)
        partial._replay()
        return partial

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        self.arrays.clear()  # some systems cannot remove a file that is mapped

    def record(
        self,
        chunk: int,
        positions: range,
        features: Mapping[str, NDArray[np.float32]],
        failed: Mapping[int, str],
        *,
        retry: bool = False,
    ) -> None:
        """Write a chunk's features to disk, then its line to the journal.

        With `retry`, a later run encodes the chunk again: its unreadable images may be readable by then.
        """
        for name, rows in features.items():
            self._write(name, positions.start, rows)
        line = {
            "chunk": chunk,
            "first": positions.start,
            "end": positions.stop,
            "crc32": self._checksum(positions),
            "failed": {str(position): problem for position, problem in failed.items()},
        }
        self._journal.write(json.dumps(line | ({"retry": True} if retry else {})) + "\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self.done.add(chunk)
        self.failed.update(failed)

    def _write(self, name: str, first: int, rows: NDArray[np.float32]) -> None:
        """Write rows through the file: on a full disk, a write to mapped memory would kill the process."""
        array = self.arrays[name]
        stored = np.ascontiguousarray(rows, array.dtype)
        with open(self.folder / f"{name}.npy", "r+b") as file:
            file.seek(array.offset + first * array.strides[0])
            file.write(stored.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _checksum(self, positions: range) -> int:
        checksum = 0
        for name in sorted(self.arrays):
            rows = self.arrays[name][positions.start : positions.stop]
            checksum = crc32(np.ascontiguousarray(rows).tobytes(), checksum)
        return checksum

    def _replay(self) -> None:
        """Take over the chunks of the journal; truncated lines and lines with a wrong checksum are skipped."""
        self._journal.seek(0)
        for text in self._journal.read().split("\n"):
            try:
                line = json.loads(text)
                chunk, positions = int(line["chunk"]), range(int(line["first"]), int(line["end"]))
                failed = {int(position): str(problem) for position, problem in line["failed"].items()}
                valid = not line.get("retry") and self._checksum(positions) == line["crc32"]
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            if valid:
                self.done.add(chunk)
                self.failed.update(failed)
        self._journal.seek(0, os.SEEK_END)
        if self._journal.tell():
            self._journal.write("\n")  # ends a line that was truncated


def _lock(journal: IO[str], folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise PackError(f"{str(folder)!r} is being written by another run; wait for it or end it.") from error


def _plan(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "settings": settings}


def _read_plan(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PackError(f"{str(file)!r} is damaged; remove {str(file.parent)!r} to start again.") from error


def _check_same_settings(plan: Any, new: Mapping[str, Any], folder: Path) -> None:
    """Refuse the plan of a folder that another version began, or that has other settings."""
    if not isinstance(plan, dict):
        raise PackError(f"{str(folder / PLAN)!r} is damaged; remove {str(folder)!r} to start again.")
    found = plan.get("format", 1)  # format 1 had no number
    if found != FORMAT:
        raise PackError(
            f"{str(folder / PLAN)!r} has format {found!r}; this version reads format {FORMAT}. "
            f"Remove {str(folder)!r} to start again."
        )
    old = plan.get("settings")
    if not isinstance(old, dict):
        raise PackError(f"{str(folder / PLAN)!r} is damaged; remove {str(folder)!r} to start again.")
    differ = [name for name in dict(new) | old if old.get(name) != new.get(name)]
    if differ:
        names = ", ".join(differ)
        raise PackError(
            f"{str(folder)!r} is a stopped run that had other settings ({names}): "
            "run it with the same ones to go on, or remove it to start again."
        )


def _reopen(file: Path, shape: tuple[int, ...], store: str) -> np.memmap[Any, Any]:
    try:
        array: np.memmap[Any, Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise PackError(f"{str(file)!r} is missing or damaged; remove {str(file.parent)!r} to start again.") from error
    if array.shape != shape or array.dtype.name != store:
        raise PackError(f"{str(file)!r} has another shape; remove {str(file.parent)!r} to start again.")
    return array
