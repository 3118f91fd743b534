"""Folders of anyone's pictures: a folder a class, or pictures without labels."""

from __future__ import annotations

from pathlib import Path

from cosmic_tta.datasets.assemble import Entry, Listing, empty_classes, items_of
from cosmic_tta.datasets.base import Dataset
from cosmic_tta.datasets.files import few, pictures_in, subfolders
from cosmic_tta.datasets.labels import settle
from cosmic_tta.errors import DatasetError
from cosmic_tta.prompts import ClassNames


def class_folders(
    folder: Path, told: ClassNames | None = None, *, split: str = "test", strict: bool = True, blanks: bool = True
) -> Dataset:
    """Load a folder that has a folder for each class.

    Classes are called as their folders and come in natural order, unless a file of class names tells both. Pictures
    may lie deeper within a class's folder; they come in the order of the code points of their paths.
    """
    found = {name: pictures_in(folder / name, deep=True) for name in subfolders(folder)}
    names = list(found)
    class_names, labels = settle(names, told, str(folder), blanks=blanks, numerals=True)
    bare = [name for name in names if not found[name].paths]
    untold = [name for label, name in enumerate(class_names) if label not in set(labels)]
    for wrong, what in ((bare, "class folders without a picture"), (untold, "classes without a folder")):
        if wrong and strict:
            raise DatasetError(
                f"{str(folder)!r} has {len(wrong)} {what}: {few(wrong)}. "
                "Fill or remove them, or allow it (strict=False, --partial)."
            )
    entries: list[Entry] = [
        (f"{name}/{path}", label) for name, label in zip(names, labels, strict=True) for path in found[name].paths
    ]
    beside = pictures_in(folder)
    ignored = beside.ignored + sum(inner.ignored for inner in found.values())
    notes = _passed_over(ignored, len(beside.paths))
    return _dataset(Listing(folder, class_names, sorted(entries), str(folder), notes, found=True), split)


def flat_folder(folder: Path, told: ClassNames | None, *, split: str = "test") -> Dataset:
    """Load a folder of pictures without labels; a file of class names tells what may be seen in them."""
    found = pictures_in(folder)
    class_names, labels = settle([None] * len(found.paths), told, str(folder))
    entries = list(zip(found.paths, labels, strict=True))
    notes = _passed_over(found.ignored, 0)
    return _dataset(Listing(folder, class_names, entries, str(folder), notes, found=True), split)


def _passed_over(files: int, loose: int) -> tuple[str, ...]:
    told = [(files, "files passed over, no pictures"), (loose, "pictures passed over, beside the class folders")]
    return tuple(f"{what}: {count:,}." for count, what in told if count)


def _dataset(listing: Listing, split: str) -> Dataset:
    items, _ = items_of(listing, strict=True)
    notes = listing.notes + empty_classes(listing.class_names, items)
    return Dataset(
        listing.folder.resolve().name, split, listing.class_names, items, source=str(listing.folder), notes=notes
    )
