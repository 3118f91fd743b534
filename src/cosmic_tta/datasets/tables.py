"""Tables of pictures and labels: which column is which, and what its values mean."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosmic_tta.datasets.assemble import Listing, classes_by_label, empty_classes, items_of
from cosmic_tta.datasets.base import Dataset, Item
from cosmic_tta.datasets.files import SPLIT_OF, few, read_text
from cosmic_tta.datasets.labels import Raw, settle
from cosmic_tta.errors import DatasetError
from cosmic_tta.pictures import Source
from cosmic_tta.prompts import ClassNames

# Columns by what they may be called, the first that is there counts.
PICTURES = ("path", "image", "file", "filename", "file_name", "filepath", "image_path", "img", "picture")
LABELS = ("label", "class", "target", "category", "cls")
NAMES = ("class_name", "label_name", "classname", "class")
SPLIT = ("split",)

Columns = Mapping[str, Sequence[Any]]  # by names in small letters, all of one length


def read_csv(file: Path) -> dict[str, list[str]]:
    """Read a table with a header, parted by commas, semicolons or tabs."""
    text = read_text(file)
    header = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error as error:
        raise DatasetError(f"{str(file)!r} is damaged: {error}. Write it anew.") from error
    if len(rows) < 2:
        raise DatasetError(f"{str(file)!r} has no row below its header; it needs a header and a row for each picture.")
    names = [name.strip().lower() for name in rows[0]]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise DatasetError(f"{str(file)!r}, row {number}: has {len(row)} fields, the header {len(names)}.")
    return {name: [row[place].strip() for row in rows[1:]] for place, name in enumerate(names)}


def column(columns: Columns, names: Sequence[str]) -> str | None:
    """Return the first of some names that a table has."""
    return next((name for name in names if name in columns), None)


def picture_column(columns: Columns, file: Path) -> str:
    """Return the name of the column of pictures."""
    found = column(columns, PICTURES)
    if found is None:
        raise DatasetError(f"{str(file)!r} has the columns {few(columns, 8)}; one must be called {few(PICTURES)}.")
    return found


def rows_of_split(columns: Columns, split: str, file: Path) -> Sequence[int]:
    """Return the rows of a split; all of them if the table has no column that tells."""
    rows = range(len(next(iter(columns.values()))))
    told = column(columns, SPLIT)
    if told is None:
        return rows
    kept = [row for row in rows if SPLIT_OF.get(str(columns[told][row]).lower()) == split]
    if not kept:
        there = sorted({str(value) for value in columns[told]})
        raise DatasetError(f"{str(file)!r} has no row of the split {split!r}; it has {few(there)}.")
    return kept


def labels_of(
    columns: Columns, rows: Sequence[int], told: ClassNames | None, file: Path
) -> tuple[tuple[str, ...], list[int | None]]:
    """Settle classes and labels; a column of names beside numbers tells the classes if no file does."""
    label = column(columns, LABELS) or column(columns, NAMES)
    raw: list[Raw] = [None if label is None else columns[label][row] for row in rows]
    name = column({key: () for key in columns if key != label}, NAMES)
    if told is None and name is not None and all(str(value).isdecimal() for value in raw):
        # All rows tell the names, so that every split has the same classes.
        told_all = zip(columns[str(label)], columns[name], strict=True)
        pairs = ((int(number), str(word)) for number, word in told_all if str(number).isdecimal())
        told = ClassNames(classes_by_label(pairs, str(file)))
    return settle(raw, told, str(file))


def table_of_paths(
    columns: Columns, file: Path, folder: Path, told: ClassNames | None, *, split: str, strict: bool
) -> Dataset:
    """Load the pictures that a table names by their paths, in its order; the paths are relative to `folder`."""
    pictures = picture_column(columns, file)
    rows = rows_of_split(columns, split, file)
    class_names, labels = labels_of(columns, rows, told, file)
    paths = [str(columns[pictures][row]) for row in rows]
    listing = Listing(folder, class_names, list(zip(paths, labels, strict=True)), str(file))
    items, notes = items_of(listing, strict=strict)
    notes += empty_classes(class_names, items)
    return Dataset(file.stem, split, class_names, items, source=str(file), notes=notes)


def table_of_bytes(
    columns: Columns,
    file: Path,
    read: Callable[[int], tuple[str, Callable[[], Source]]],
    told: ClassNames | None,
    *,
    split: str,
) -> Dataset:
    """Load the pictures that lie in a table itself; `read` gives a row's key and its reader."""
    rows = rows_of_split(columns, split, file)
    class_names, labels = labels_of(columns, rows, told, file)
    items = []
    for row, label in zip(rows, labels, strict=True):
        key, reader = read(row)
        items.append(Item(key, label, reader))
    notes = empty_classes(class_names, items)
    return Dataset(file.stem, split, class_names, tuple(items), source=str(file), notes=notes)
