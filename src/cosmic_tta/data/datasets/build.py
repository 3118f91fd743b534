"""From paths and labels to items: the checks that every source goes through."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets.base import Item
from cosmic_tta.data.datasets.files import quote_some, relative_path
from cosmic_tta.data.images.decode import Source

Entry = tuple[str, int | None]  # path, label


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads an image that is a file of its own: returns its path."""

    path: str

    def __call__(self) -> Source:
        """Return the path."""
        return self.path


@dataclass(frozen=True)
class Listing:
    """The images of one split as a source lists them, before they are looked up on disk."""

    folder: Path  # the paths are relative to it
    class_names: tuple[str, ...]
    entries: Sequence[Entry]
    described_by: str  # the file or folder of the list, for messages
    notes: tuple[str, ...] = ()
    exists: bool = False  # the paths were found on disk, so they need no lookup


def items_of(listing: Listing, *, strict: bool) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Return the items of a listing, and notes on missing images.

    A listed image that is missing is an error; with `strict=False` it is left out and noted.
    """
    check_classes(listing.class_names, listing.described_by)
    check_labels((label for _, label in listing.entries), len(listing.class_names), listing.described_by)
    paths = [path if listing.exists else relative_path(path, listing.folder) for path, _ in listing.entries]
    present = [True] * len(paths) if listing.exists else _exist(listing.folder, paths)
    missing = [path for path, found in zip(paths, present, strict=True) if not found]
    if missing and strict:
        raise DatasetError(
            f"{listing.described_by} names {len(paths):,} images, of which {len(missing):,} are not in "
            f"{str(listing.folder)!r}: {quote_some(missing)}. "
            "Add them, or allow a partial copy (strict=False, --partial)."
        )
    root = listing.folder.absolute()
    items = tuple(
        Item(path, label, FileReader(f"{root}{os.sep}{path}"))
        for path, (_, label), found in zip(paths, listing.entries, present, strict=True)
        if found
    )
    if not items:
        raise DatasetError(f"{listing.described_by}: none of its images is in {str(listing.folder)!r}.")
    note = f"listed images that are missing and left out: {len(missing):,} ({quote_some(missing)})."
    return items, (note,) if missing else ()


def check_classes(names: Sequence[str], described_by: str) -> None:
    """Refuse class names that are empty or given twice."""
    if not names:
        raise DatasetError(f"{described_by} names no class.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DatasetError(
            f"{described_by}: class names must differ; given more than once: {quote_some(repeated)}. Rename them."
        )
    if not all(name.strip() for name in names):
        raise DatasetError(f"{described_by}: a class name is empty; every class needs one.")


def check_labels(labels: Iterable[int | None], classes: int, described_by: str) -> None:
    """Refuse labels that are the number of no class."""
    invalid = Counter(label for label in labels if label is not None and not 0 <= label < classes)
    if invalid:
        raise DatasetError(
            f"{described_by}: {sum(invalid.values()):,} labels are out of range, "
            f"such as {quote_some(sorted(invalid))}; there are {classes} classes, 0 to {classes - 1}. "
            "Check the labels or the class names."
        )


def note_empty_classes(names: Sequence[str], items: Sequence[Item]) -> tuple[str, ...]:
    """Return a note on classes without images, if there are any."""
    if all(item.label is None for item in items):
        return ()
    used = {item.label for item in items}
    empty = [name for label, name in enumerate(names) if label not in used]
    return (f"classes without an image here: {len(empty)} of {len(names)} ({quote_some(empty)}).",) if empty else ()


def classes_by_label(named: Iterable[tuple[int, str]], described_by: str) -> tuple[str, ...]:
    """Return the class names in the order of their labels, from pairs that must agree and leave no gap."""
    names: dict[int, str] = {}
    for label, name in named:
        if names.setdefault(label, name) != name:
            raise DatasetError(f"{described_by} calls class {label} {names[label]!r} and {name!r}; give it one name.")
    gaps = sorted(set(range(max(names, default=-1) + 1)) - set(names))
    if gaps or min(names, default=0) < 0:
        problem = f"none of label {quote_some(gaps)}" if gaps else f"label {min(names)}"
        raise DatasetError(f"{described_by} must number its classes 0, 1, 2, ... without a gap; there is {problem}.")
    return tuple(names[label] for label in range(len(names)))


def label_of(name: str, labels: Mapping[str, int], described_by: str) -> int:
    """Return the label of a class name."""
    if name not in labels:
        similar = get_close_matches(name, list(labels), n=1)
        hint = f"did you mean {similar[0]!r}?" if similar else f"the classes are {quote_some(labels, 5)}."
        raise DatasetError(f"{described_by} names the class {name!r}, which is none of {len(labels)} classes: {hint}")
    return labels[name]


def _exist(folder: Path, paths: Sequence[str]) -> list[bool]:
    """Return which paths exist; each folder is listed once, which is faster than a lookup per image."""
    parents = {path.rpartition("/")[0] for path in paths}
    names = {parent: _names(folder / parent) for parent in parents}
    return [name in names[parent] for parent, _, name in (path.rpartition("/") for path in paths)]


def _names(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except OSError:
        return frozenset()
