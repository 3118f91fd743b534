"""From a list of paths and labels to a Dataset: the checks that every source goes through."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from cosmic_tta.datasets.base import Item
from cosmic_tta.datasets.files import few, inside
from cosmic_tta.errors import DatasetError
from cosmic_tta.pictures import Source

Entry = tuple[str, int | None]  # path, label


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads an item that is a file of its own: the path is enough."""

    path: str

    def __call__(self) -> Source:
        """Return the path."""
        return self.path


@dataclass(frozen=True)
class Listing:
    """What a source says of one split, before its pictures are looked for."""

    folder: Path  # the paths are relative to it
    class_names: tuple[str, ...]
    entries: Sequence[Entry]
    told_by: str  # the file or folder that says so
    notes: tuple[str, ...] = ()
    found: bool = False  # the paths were found on disk, not told by a list


def items_of(listing: Listing, *, strict: bool) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Make the items of a listing, and the notes on what is absent.

    A picture that is listed but not there is an error, or with `strict=False` left out and noted.
    """
    check_classes(listing.class_names, listing.told_by)
    check_labels((label for _, label in listing.entries), len(listing.class_names), listing.told_by)
    paths = [path if listing.found else inside(path, listing.folder) for path, _ in listing.entries]
    there = [True] * len(paths) if listing.found else _present(listing.folder, paths)
    missing = [path for path, found in zip(paths, there, strict=True) if not found]
    if missing and strict:
        raise DatasetError(
            f"{listing.told_by} names {len(paths):,} pictures, of which {len(missing):,} are not in "
            f"{str(listing.folder)!r}: {few(missing)}. Add them, or allow a partial copy (strict=False, --partial)."
        )
    root = listing.folder.absolute()
    items = tuple(
        Item(path, label, FileReader(f"{root}{os.sep}{path}"))
        for path, (_, label), found in zip(paths, listing.entries, there, strict=True)
        if found
    )
    if not items:
        raise DatasetError(f"{listing.told_by}: none of its pictures is in {str(listing.folder)!r}; nothing to load.")
    absent = f"listed pictures that are absent and left out: {len(missing):,} ({few(missing)})."
    return items, (absent,) if missing else ()


def check_classes(names: Sequence[str], told_by: str) -> None:
    """Refuse class names that are empty or the same."""
    if not names:
        raise DatasetError(f"{told_by} names no class.")
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        raise DatasetError(f"{told_by}: class names must differ; given more than once: {few(twins)}. Rename them.")
    if not all(name.strip() for name in names):
        raise DatasetError(f"{told_by}: a class name is empty; every class needs one.")


def check_labels(labels: Iterable[int | None], classes: int, told_by: str) -> None:
    """Refuse labels that belong to no class."""
    bad = Counter(label for label in labels if label is not None and not 0 <= label < classes)
    if bad:
        raise DatasetError(
            f"{told_by}: {sum(bad.values()):,} labels are out of range, such as {few(sorted(bad))}; "
            f"there are {classes} classes, 0 to {classes - 1}. Check the labels or the class names."
        )


def empty_classes(names: Sequence[str], items: Sequence[Item]) -> tuple[str, ...]:
    """Return a note on classes without pictures, if there are any."""
    if all(item.label is None for item in items):
        return ()
    seen = {item.label for item in items}
    bare = [name for label, name in enumerate(names) if label not in seen]
    return (f"classes without a picture here: {len(bare)} of {len(names)} ({few(bare)}).",) if bare else ()


def classes_by_label(named: Iterable[tuple[int, str]], told_by: str) -> tuple[str, ...]:
    """Return the class names in the order of their labels, from pairs that must agree and leave no gap."""
    names: dict[int, str] = {}
    for label, name in named:
        if names.setdefault(label, name) != name:
            raise DatasetError(f"{told_by} calls class {label} {names[label]!r} and {name!r}; it must have one name.")
    gaps = sorted(set(range(max(names, default=-1) + 1)) - set(names))
    if gaps or min(names, default=0) < 0:
        wrong = f"none of label {few(gaps)}" if gaps else f"label {min(names)}"
        raise DatasetError(f"{told_by} must number its classes 0, 1, 2, ... without a gap; there is {wrong}.")
    return tuple(names[label] for label in range(len(names)))


def label_of(name: str, labels: Mapping[str, int], told_by: str) -> int:
    """Look a class up by its name."""
    if name not in labels:
        near = get_close_matches(name, list(labels), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the classes are {few(labels, 5)}."
        raise DatasetError(f"{told_by} names the class {name!r}, which is none of {len(labels)} classes: {hint}")
    return labels[name]


def _present(folder: Path, paths: Sequence[str]) -> list[bool]:
    """Tell which paths are there: one look into each folder, not one a picture."""
    parents = {path.rpartition("/")[0] for path in paths}
    inner = {parent: _names(folder / parent) for parent in parents}
    return [name in inner[parent] for parent, _, name in (path.rpartition("/") for path in paths)]


def _names(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except OSError:
        return frozenset()
