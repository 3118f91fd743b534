"""Files of data sets: found in the same order on every machine, read with clear errors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from cosmic_tta.core.errors import DatasetError, install_extra, missing_packages
from cosmic_tta.data.images.decode import SUFFIXES

# The names of a split in folders, tables and shards.
SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "val": ("val", "validation", "valid", "dev"),
    "test": ("test", "testing"),
}
SPLIT_OF = {alias: split for split, aliases in SPLITS.items() for alias in aliases}
PLAIN_PATH = re.compile(r"[\w-][\w. -]*(/[\w-][\w. -]*)*")  # certainly relative and without '..'; a fast check


@dataclass(frozen=True)
class ImageFiles:
    """The images below a folder, and the number of other files."""

    paths: tuple[str, ...]  # relative, with slashes, in the order of their code points
    ignored: int


def quote_some(names: Iterable[object], limit: int = 3) -> str:
    """Quote the first few names.

    >>> quote_some(["a", "b", "c", "d"])
    "'a', 'b', 'c', ..."
    """
    listed = list(names)
    return ", ".join(repr(str(name)) for name in listed[:limit]) + (", ..." if len(listed) > limit else "")


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key that compares numbers within names as numbers.

    >>> sorted(["class10", "class9", "Class1"], key=natural_order)
    ['Class1', 'class9', 'class10']
    """
    parts = re.split("([0-9]+)", name.casefold())
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts)), name


def canonical_split(split: str) -> str:
    """Return the canonical name of a split: train, val or test."""
    if split.lower() not in SPLIT_OF:
        raise DatasetError(f"unknown split {split!r}: give one of {', '.join(SPLITS)}.")
    return SPLIT_OF[split.lower()]


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, in natural order, without hidden ones."""
    with _scan(folder) as entries:
        return sorted(
            (entry.name for entry in entries if not _hidden(entry.name) and _is_folder(entry)), key=natural_order
        )


def images_in(folder: Path, *, deep: bool = False) -> ImageFiles:
    """Find the images in a folder, and with `deep` in the folders below it."""
    found: list[str] = []
    ignored = 0
    top, seen = os.path.realpath(folder), set()
    folders, links = [""], list[str]()
    while folders or links:
        # Links come last: their targets may be found by their own names, or lie above and make a cycle.
        inner = folders.pop() if folders else links.pop()
        real = os.path.realpath(folder / inner)
        if real in seen or (real != top and f"{top}{os.sep}".startswith(f"{real.rstrip(os.sep)}{os.sep}")):
            continue
        seen.add(real)
        with _scan(folder / inner) as entries:
            for entry in sorted(entries, key=lambda entry: str(entry.name)):
                if _is_folder(entry):
                    if deep and not _hidden(entry.name):
                        (links if entry.is_symlink() else folders).append(f"{inner}{entry.name}/")
                elif is_image(entry.name):
                    found.append(f"{inner}{entry.name}")
                else:
                    ignored += 1
    return ImageFiles(tuple(sorted(found)), ignored)


def is_image(name: str) -> bool:
    """Return whether a file is an image, by its name."""
    return not _hidden(name) and f".{name.rpartition('.')[2].lower()}" in SUFFIXES


def relative_path(given: str, folder: Path) -> str:
    """Return a listed path relative to its folder, with slashes. A path outside the folder is refused."""
    if PLAIN_PATH.fullmatch(given):
        return given
    windows = PureWindowsPath(given)
    relative = PurePosixPath(given)
    if relative.is_absolute():
        try:
            relative = relative.relative_to(PurePosixPath(folder.absolute().as_posix()))
        except ValueError:
            raise _outside(given, folder) from None
    elif windows.drive or windows.root:
        raise _outside(given, folder)
    if (
        not given.strip()
        or "\0" in given
        or ".." in relative.parts
        or ".." in windows.parts
        or relative == PurePosixPath(".")
    ):
        raise _outside(given, folder)
    return str(relative)


def read_text(file: Path) -> str:
    """Read a text file in UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{str(file)!r} is damaged: it is not UTF-8 text. Download it again.") from error
    except OSError as error:
        raise DatasetError(f"{str(file)!r} cannot be read: {error.strerror}.") from error


def read_json(file: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{str(file)!r} is damaged: it is not valid JSON ({error}). Download it again.") from error


def import_optional(module: str, file: str) -> Any:
    """Import a package that only some data sets need; `file` is the one that needs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise DatasetError(missing_packages(f"{file!r} needs", [package], install_extra("data"))) from error


def _scan(folder: Path) -> Any:
    try:
        return os.scandir(folder)
    except OSError as error:
        raise DatasetError(f"the folder {str(folder)!r} cannot be read: {error.strerror}.") from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _hidden(name: str) -> bool:
    return name.startswith(".")


def _outside(given: str, folder: Path) -> DatasetError:
    return DatasetError(
        f"the path {given!r} is not inside {str(folder)!r}: paths must be relative to it, without '..'."
    )
