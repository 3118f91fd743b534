"""An extraction under way, on disk: arrays that fill up, and a journal of what in them is safe."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import PackError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system: two runs at once are then the user's own care
    fcntl = None  # type: ignore[assignment]


class Partial:
    """The folder `PACK.partial`: `plan.json`, `<name>.npy` for each array, `journal.jsonl`."""

    def __init__(self, folder: Path, arrays: dict[str, np.memmap[Any, Any]], journal: IO[str]) -> None:
        self.folder, self.arrays, self._journal = folder, arrays, journal
        self.done: set[int] = set()  # chunks
        self.failed: dict[int, str] = {}  # places of pictures → what is wrong with them

    @staticmethod
    def folder_of(pack: Path) -> Path:
        """Return where a pack lies until it is whole."""
        return pack.with_name(f"{pack.name}.partial")

    @classmethod
    def awaits_removal(cls, pack: Path, plan: Mapping[str, Any]) -> bool:
        """Tell whether a whole pack's partial folder is still there, and is none of another plan."""
        folder = cls.folder_of(pack)
        file = folder / "plan.json"
        return folder.is_dir() and (not file.exists() or _read_plan(file) == plan)

    @classmethod
    def remove(cls, pack: Path) -> None:
        """Remove a pack's partial folder, its plan first: what is left if this is stopped is started anew."""
        folder = cls.folder_of(pack)
        (folder / "plan.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def open(cls, pack: Path, plan: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], store: str) -> Self:
        """Open a pack's partial folder, or make it; one that was made by another plan is refused."""
        folder = cls.folder_of(pack)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "journal.jsonl"
        journal = open(file, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by __exit__
        try:
            _lock(journal, folder)
            file = folder / "plan.json"
            if file.exists():
                _same_plan(_read_plan(file), plan, folder)
            else:
                journal.truncate(0)
                for name, shape in shapes.items():
                    np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.dtype(store), shape=shape)
                _write_whole(file, json.dumps(plan, indent=1))
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
        self.arrays.clear()  # what is mapped cannot be removed on every system

    def record(
        self,
        chunk: int,
        places: range,
        features: Mapping[str, NDArray[np.float32]],
        failed: Mapping[int, str],
        *,
        again: bool = False,
    ) -> None:
        """Write a chunk's features, and only when they are on disk its line in the journal.

        With `again`, a later run does not rely on it: what kept a picture from being read may have passed by then.
        """
        for name, rows in features.items():
            self._write(name, places.start, rows)
        told = {str(place): problem for place, problem in failed.items()}
        line = {"chunk": chunk, "first": places.start, "end": places.stop, "sum": self._sum(places), "failed": told}
        self._journal.write(json.dumps(line | ({"again": True} if again else {})) + "\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self.done.add(chunk)
        self.failed.update(failed)

    def _write(self, name: str, first: int, rows: NDArray[np.float32]) -> None:
        """Write rows through the file: on a full disk, memory that is mapped would end the process without a word."""
        array = self.arrays[name]
        stored = np.ascontiguousarray(rows, array.dtype)
        with open(self.folder / f"{name}.npy", "r+b") as file:
            file.seek(array.offset + first * array.strides[0])
            file.write(stored.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _sum(self, places: range) -> int:
        total = 0
        for name in sorted(self.arrays):
            total = crc32(np.ascontiguousarray(self.arrays[name][places.start : places.stop]).tobytes(), total)
        return total

    def _replay(self) -> None:
        """Take up what the journal vouches for; a line cut short, or one whose rows are others, counts for nothing."""
        self._journal.seek(0)
        for text in self._journal.read().split("\n"):
            try:
                line = json.loads(text)
                chunk, places = int(line["chunk"]), range(int(line["first"]), int(line["end"]))
                failed = {int(place): str(problem) for place, problem in line["failed"].items()}
                sound = not line.get("again") and self._sum(places) == line["sum"]
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            if sound:
                self.done.add(chunk)
                self.failed.update(failed)
        self._journal.seek(0, os.SEEK_END)
        if self._journal.tell():
            self._journal.write("\n")  # ends a line that was cut short


def _lock(journal: IO[str], folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise PackError(f"{str(folder)!r} is being filled by another run; wait for it or end it.") from error


def _read_plan(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PackError(f"{str(file)!r} is damaged; remove {str(file.parent)!r} to start anew.") from error


def _same_plan(old: Any, new: Mapping[str, Any], folder: Path) -> None:
    if not isinstance(old, dict):
        raise PackError(f"{str(folder / 'plan.json')!r} is damaged; remove {str(folder)!r} to start anew.")
    differ = [name for name in dict(new) | old if old.get(name) != new.get(name)]
    if differ:
        names = ", ".join(differ)
        raise PackError(
            f"{str(folder)!r} is a run that was stopped and had other settings ({names}): "
            "run it with the same ones to go on, or remove it to start anew."
        )


def _reopen(file: Path, shape: tuple[int, ...], store: str) -> np.memmap[Any, Any]:
    try:
        array: np.memmap[Any, Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise PackError(f"{str(file)!r} is missing or damaged; remove {str(file.parent)!r} to start anew.") from error
    if array.shape != shape or array.dtype.name != store:
        raise PackError(f"{str(file)!r} has another shape; remove {str(file.parent)!r} to start anew.")
    return array


def _write_whole(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    with open(unfinished, "w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    unfinished.replace(file)
