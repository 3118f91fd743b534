"""Folders of images: one folder per class, or images without labels."""

from __future__ import annotations

from pathlib import Path

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.datasets.build import Entry, Listing, items_of, note_empty_classes
from cosmic_tta.data.datasets.files import images_in, quote_some, subfolders
from cosmic_tta.data.datasets.labels import resolve_labels


def class_folders(
    folder: Path,
    given_names: ClassNames | None = None,
    *,
    split: str = "test",
    strict: bool = True,
    replace_underscores: bool = True,
) -> Dataset:
    """Load a folder that has one folder per class.

    The classes have the names of their folders, in natural order, unless `given_names` has other names or another
    order. Images may lie deeper in a class's folder. They are sorted by the code points of their paths.
    """
    found = {name: images_in(folder / name, deep=True) for name in subfolders(folder)}
    names = list(found)
    class_names, labels = resolve_labels(
        names, given_names, str(folder), replace_underscores=replace_underscores, numeric_names=True
    )
    empty = [name for name in names if not found[name].paths]
    absent = [name for label, name in enumerate(class_names) if label not in set(labels)]
    for classes, problem in ((empty, "class folders without an image"), (absent, "classes without a folder")):
        if classes and strict:
            raise DatasetError(
                f"{str(folder)!r} has {len(classes)} {problem}: {quote_some(classes)}. "
                "Fill or remove them, or allow it (strict=False, --partial)."
            )
    entries: list[Entry] = [
        (f"{name}/{path}", label) for name, label in zip(names, labels, strict=True) for path in found[name].paths
    ]
    loose = images_in(folder)
    ignored = loose.ignored + sum(inner.ignored for inner in found.values())
    notes = _ignored_notes(ignored, len(loose.paths))
    return _dataset(Listing(folder, class_names, sorted(entries), str(folder), notes, exists=True), split)


def flat_folder(folder: Path, given_names: ClassNames | None, *, split: str = "test") -> Dataset:
    """Load a folder of images without labels; `given_names` has the classes."""
    found = images_in(folder)
    class_names, labels = resolve_labels([None] * len(found.paths), given_names, str(folder))
    entries = list(zip(found.paths, labels, strict=True))
    notes = _ignored_notes(found.ignored, 0)
    return _dataset(Listing(folder, class_names, entries, str(folder), notes, exists=True), split)


def _ignored_notes(files: int, loose_images: int) -> tuple[str, ...]:
    counts = [(files, "files ignored, not images"), (loose_images, "images ignored, not in a class folder")]
    return tuple(f"{what}: {count:,}." for count, what in counts if count)


def _dataset(listing: Listing, split: str) -> Dataset:
    items, _ = items_of(listing, strict=True)
    notes = listing.notes + note_empty_classes(listing.class_names, items)
    return Dataset(
        listing.folder.resolve().name, split, listing.class_names, items, source=str(listing.folder), notes=notes
    )
