"""Published data sets by name: found under a root, listed, checked against what the paper counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cosmic_tta.datasets.assemble import Listing, empty_classes, items_of, label_of
from cosmic_tta.datasets.base import Dataset
from cosmic_tta.datasets.files import checked_split
from cosmic_tta.datasets.layouts import Layout, Place, Published, SplitFile
from cosmic_tta.datasets.rows import ROWS
from cosmic_tta.errors import CosmicError, DatasetError, unknown_name
from cosmic_tta.prompts import read_class_names, spoken

CATALOGUE: Mapping[str, Published] = {row.key: row for row in ROWS}


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


_BY_NAME = {_plain(name): row for row in ROWS for name in (row.key, row.title, row.folders[0], *row.aliases)}


def find(name: str) -> Published | None:
    """Return a data set by its name, in any spelling, or None."""
    return None if {"/", "\\"} & set(name) else _BY_NAME.get(_plain(name))


def published(name: str) -> Published:
    """Return a data set by its name: capitals, dashes and underscores do not count.

    >>> published("ImageNetV2").key, published("Oxford-Pets").key, published("cars").key
    ('imagenet_v2', 'oxford_pets', 'stanford_cars')
    """
    row = find(name)
    if row is None:
        raise unknown_name("data set", name, CATALOGUE)
    return row


def recognise(folder: Path) -> Published | None:
    """Return the data set whose split file a folder holds, or whose name and layout it has; else None."""
    for row in ROWS:
        for layout in row.layouts:
            if isinstance(layout, SplitFile) and (folder / layout.file).is_file():
                return row
    parts = folder.resolve().parts
    for row in ROWS:
        called = any(parts[-len(Path(name).parts) :] == Path(name).parts for name in row.folders)
        if called and any(not absent(folder, layout) for layout in row.layouts):
            return row
    return None


def folders(row: Published, root: Path) -> list[Path]:
    """Return where a data set lies under a root; empty if it does not."""
    return [root / name for name in row.folders if (root / name).is_dir()]


def absent(folder: Path, layout: Layout) -> tuple[str, ...]:
    """Return what a layout needs and a folder has not."""
    return tuple(need for need in layout.needs if not _there(folder, need))


def load_published(
    row: Published, root: Path, split: str = "test", *, strict: bool = True, classes_file: Path | None = None
) -> Dataset:
    """Load a split of a published data set from a folder under `root`, or from `root` itself.

    With `strict`, every listed picture must be there and the numbers of classes and pictures must be the expected.
    """
    split = checked_split(split)
    folder, layout = _locate(row, root)
    sizes = layout.sizes or row.sizes
    if split not in sizes:
        raise DatasetError(
            f"{row.title} has no split {split!r} as it lies in {str(folder)!r}; it has {', '.join(sizes)}."
        )
    listing = layout.listing(Place(folder, root, classes_file), split)
    if classes_file is not None:
        listing = _renamed(listing, classes_file)
    items, missing = items_of(listing, strict=strict)
    counts = f"{len(items):,} pictures of {len(listing.class_names):,} classes"
    wanted = f"{sizes[split]:,} of {row.classes:,}"
    partial: tuple[str, ...] = ()
    if (len(items), len(listing.class_names)) != (sizes[split], row.classes):
        if strict:
            raise DatasetError(
                f"{row.title}, split {split}: found {counts}, expected {wanted} ({listing.told_by}). "
                "Get the rest, or allow a partial copy (strict=False, --partial)."
            )
        partial = (f"a partial copy: {counts}, where {wanted} are expected.",)
    notes = listing.notes + missing + partial + empty_classes(listing.class_names, items)
    return Dataset(row.key, split, listing.class_names, items, row.templates, row.source, row.licence, notes)


def problems(row: Published, root: Path, *, partial: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each split of a data set under `root` with what is wrong with it, in one sentence; "" if it is sound."""
    try:
        folder, layout = _locate(row, root)
    except CosmicError as error:
        yield "", str(error)
        return
    for split in layout.sizes or row.sizes:
        if split != "test" and not layout.has(folder, split):
            continue  # ImageNet's training pictures may rightly be absent
        try:
            load_published(row, root, split, strict=not partial)
        except CosmicError as error:
            yield split, str(error)
        else:
            yield split, ""


def _locate(row: Published, root: Path) -> tuple[Path, Layout]:
    if not root.is_dir():
        raise DatasetError(f"the root {str(root)!r} is no folder; give the one that holds {row.folders[0]!r}.")
    there = folders(row, root)
    for folder in (*there, root):
        for layout in row.layouts:
            if not absent(folder, layout):
                return folder, layout
    if not there:
        raise DatasetError(
            f"{row.title} is not in {str(root)!r}: it should lie in {row.folders[0]!r}. See docs/datasets.md."
        )
    lacks = [", ".join(absent(there[0], layout)) for layout in row.layouts]
    raise DatasetError(
        f"{row.title} in {str(there[0])!r} is incomplete. Absent: {'; or: '.join(lacks)}. See docs/datasets.md."
    )


def _renamed(listing: Listing, classes_file: Path) -> Listing:
    """Take the class names from a file of the user: by the names they replace if it has keys, else in order."""
    if listing.found:
        return listing  # folders have keys of their own; their layout has read the file
    told = read_class_names(classes_file)
    if told.keys is not None:
        places = {spoken(key).casefold(): place for place, key in enumerate(told.keys)}
        order = [label_of(spoken(name).casefold(), places, listing.told_by) for name in listing.class_names]
        return replace(listing, class_names=tuple(told.names[place] for place in order))
    if len(told.names) != len(listing.class_names):
        raise DatasetError(
            f"{str(classes_file)!r} names {len(told.names)} classes; {listing.told_by} has {len(listing.class_names)}."
        )
    return replace(listing, class_names=told.names)


def _there(folder: Path, pattern: str) -> bool:
    if "*" not in pattern:
        return (folder / pattern).exists()
    return next(folder.glob(pattern), None) is not None
