"""Published data sets by name: found under a root, listed, and checked against the sizes in the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cosmic_tta.core.errors import CosmicError, DatasetError, unknown_name
from cosmic_tta.data.class_names import as_words, read_class_names
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.datasets.build import Listing, items_of, label_of, note_empty_classes
from cosmic_tta.data.datasets.files import canonical_split
from cosmic_tta.data.datasets.layouts import DatasetLocation, Layout, PublishedDataset, SplitFile
from cosmic_tta.data.datasets.published import PUBLISHED

CATALOGUE: Mapping[str, PublishedDataset] = {entry.key: entry for entry in PUBLISHED}
"""The published data sets, by key."""


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


_BY_NAME = {
    _plain(name): entry for entry in PUBLISHED for name in (entry.key, entry.title, entry.folders[0], *entry.aliases)
}


def find(name: str) -> PublishedDataset | None:
    """Return a data set by its name in any spelling, or None."""
    return None if {"/", "\\"} & set(name) else _BY_NAME.get(_plain(name))


def published(name: str) -> PublishedDataset:
    """Return a published data set by its name.

    Args:
        name: Its key, title or alias. Case, dashes and underscores do not matter.

    Returns:
        Its classes, sizes, layouts and prompts.

    Raises:
        UnknownNameError: There is no such data set.

    Examples:
        >>> published("ImageNetV2").key, published("Oxford-Pets").key, published("cars").key
        ('imagenet_v2', 'oxford_pets', 'stanford_cars')
    """
    entry = find(name)
    if entry is None:
        raise unknown_name("data set", name, CATALOGUE)
    return entry


def recognise(folder: Path) -> PublishedDataset | None:
    """Return the data set whose split file is in a folder, or whose name and layout the folder has; else None."""
    for entry in PUBLISHED:
        for layout in entry.layouts:
            if isinstance(layout, SplitFile) and (folder / layout.file).is_file():
                return entry
    parts = folder.resolve().parts
    for entry in PUBLISHED:
        has_name = any(parts[-len(Path(name).parts) :] == Path(name).parts for name in entry.folders)
        if has_name and any(not missing_paths(folder, layout) for layout in entry.layouts):
            return entry
    return None


def folders(entry: PublishedDataset, root: Path) -> list[Path]:
    """Return the folders of a data set that exist under a root."""
    return [root / name for name in entry.folders if (root / name).is_dir()]


def missing_paths(folder: Path, layout: Layout) -> tuple[str, ...]:
    """Return the paths that a layout requires and a folder lacks."""
    return tuple(pattern for pattern in layout.required_paths if not _matches(folder, pattern))


def load_published(
    entry: PublishedDataset, root: Path, split: str = "test", *, strict: bool = True, classes_file: Path | None = None
) -> Dataset:
    """Load a split of a published data set from a folder under `root`, or from `root` itself.

    With `strict`, every listed image must exist, and the numbers of classes and images must be as expected.
    """
    split = canonical_split(split)
    folder, layout = _locate(entry, root)
    sizes = layout.sizes or entry.sizes
    if split not in sizes:
        raise DatasetError(f"{entry.title} in {str(folder)!r} has no split {split!r}; it has {', '.join(sizes)}.")
    listing = layout.list_split(DatasetLocation(folder, root, classes_file), split)
    if classes_file is not None:
        listing = _rename_classes(listing, classes_file)
    items, missing = items_of(listing, strict=strict)
    counts = f"{len(items):,} images of {len(listing.class_names):,} classes"
    expected = f"{sizes[split]:,} of {entry.classes:,}"
    partial: tuple[str, ...] = ()
    if (len(items), len(listing.class_names)) != (sizes[split], entry.classes):
        if strict:
            raise DatasetError(
                f"{entry.title}, split {split}: found {counts}, expected {expected} ({listing.described_by}). "
                "Add the rest, or allow a partial copy (strict=False, --partial)."
            )
        partial = (f"a partial copy: {counts}; {expected} are expected.",)
    notes = listing.notes + missing + partial + note_empty_classes(listing.class_names, items)
    return Dataset(entry.key, split, listing.class_names, items, entry.templates, entry.source, entry.licence, notes)


def problems(entry: PublishedDataset, root: Path, *, partial: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each split of a data set under `root` with its problem in one sentence; "" if it has none."""
    try:
        folder, layout = _locate(entry, root)
    except CosmicError as error:
        yield "", str(error)
        return
    for split in layout.sizes or entry.sizes:
        if split != "test" and not layout.has_split(folder, split):
            continue  # the training images of ImageNet are often left out
        try:
            load_published(entry, root, split, strict=not partial)
        except CosmicError as error:
            yield split, str(error)
        else:
            yield split, ""


def _locate(entry: PublishedDataset, root: Path) -> tuple[Path, Layout]:
    if not root.is_dir():
        raise DatasetError(f"the root {str(root)!r} is not a folder; give the folder that holds {entry.folders[0]!r}.")
    existing = folders(entry, root)
    for folder in (*existing, root):
        for layout in entry.layouts:
            if not missing_paths(folder, layout):
                return folder, layout
    if not existing:
        raise DatasetError(
            f"{entry.title} is not in {str(root)!r}: put it into {entry.folders[0]!r} there. "
            "See docs/guide/datasets.md."
        )
    missing = [", ".join(missing_paths(existing[0], layout)) for layout in entry.layouts]
    raise DatasetError(
        f"{entry.title} in {str(existing[0])!r} is incomplete. "
        f"Missing: {'; or: '.join(missing)}. See docs/guide/datasets.md."
    )


def _rename_classes(listing: Listing, classes_file: Path) -> Listing:
    """Take the class names from the user's file. Its keys, if it has any, are the names to replace."""
    if listing.exists:
        return listing  # the layout of class folders has read the file
    given = read_class_names(classes_file)
    if given.keys is not None:
        rows = {as_words(key).casefold(): row for row, key in enumerate(given.keys)}
        order = [label_of(as_words(name).casefold(), rows, listing.described_by) for name in listing.class_names]
        return replace(listing, class_names=tuple(given.names[row] for row in order))
    if len(given.names) != len(listing.class_names):
        raise DatasetError(
            f"{str(classes_file)!r} names {len(given.names)} classes; "
            f"{listing.described_by} has {len(listing.class_names)}."
        )
    return replace(listing, class_names=given.names)


def _matches(folder: Path, pattern: str) -> bool:
    if "*" not in pattern:
        return (folder / pattern).exists()
    return next(folder.glob(pattern), None) is not None
