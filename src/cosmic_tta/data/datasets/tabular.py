"""Tables of images and labels: CSV files, and the columns that CSV and Parquet files share."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.datasets.build import Listing, classes_by_label, items_of, note_empty_classes
from cosmic_tta.data.datasets.files import SPLIT_OF, quote_some, read_text
from cosmic_tta.data.datasets.labels import RawLabel, ResolvedLabels, resolve_labels
from cosmic_tta.data.images.decode import Source

# Possible names of a column; the first that a table has is used.
IMAGE_COLUMNS = ("path", "image", "file", "filename", "file_name", "filepath", "image_path", "img", "picture")
LABEL_COLUMNS = ("label", "class", "target", "category", "cls")
NAME_COLUMNS = ("class_name", "label_name", "classname", "class")
SPLIT_COLUMNS = ("split",)

Columns = Mapping[str, Sequence[Any]]  # by name in lower case, all of one length


def read_csv(file: Path) -> dict[str, list[str]]:
    """Read a table with a header, separated by commas, semicolons or tabs."""
    text = read_text(file)
    header = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error as error:
        raise DatasetError(f"{str(file)!r} is damaged: {error}. Write it again.") from error
    if len(rows) < 2:
        raise DatasetError(f"{str(file)!r} has no row below its header; it needs a header and a row for each image.")
    names = [name.strip().lower() for name in rows[0]]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise DatasetError(f"{str(file)!r}, row {number}: has {len(row)} fields, the header {len(names)}.")
    return {name: [row[index].strip() for row in rows[1:]] for index, name in enumerate(names)}


def find_column(columns: Columns, names: Sequence[str]) -> str | None:
    """Return the first of these names that a table has."""
    return next((name for name in names if name in columns), None)


def image_column(columns: Columns, file: Path) -> str:
    """Return the name of the column of images."""
    found = find_column(columns, IMAGE_COLUMNS)
    if found is None:
        raise DatasetError(
            f"{str(file)!r} has the columns {quote_some(columns, 8)}; one must be called {quote_some(IMAGE_COLUMNS)}."
        )
    return found


def rows_of_split(columns: Columns, split: str, file: Path) -> Sequence[int]:
    """Return the rows of a split; all of them if the table has no column of splits."""
    rows = range(len(next(iter(columns.values()))))
    column = find_column(columns, SPLIT_COLUMNS)
    if column is None:
        return rows
    kept = [row for row in rows if SPLIT_OF.get(str(columns[column][row]).lower()) == split]
    if not kept:
        splits = sorted({str(value) for value in columns[column]})
        raise DatasetError(f"{str(file)!r} has no row of the split {split!r}; it has {quote_some(splits)}.")
    return kept


def labels_of(columns: Columns, rows: Sequence[int], given_names: ClassNames | None, file: Path) -> ResolvedLabels:
    """Find classes and labels. Without given names, a column of names beside numbers has the classes."""
    label = find_column(columns, LABEL_COLUMNS) or find_column(columns, NAME_COLUMNS)
    raw: list[RawLabel] = [None if label is None else columns[label][row] for row in rows]
    name = find_column({key: () for key in columns if key != label}, NAME_COLUMNS)
    if given_names is None and name is not None and all(str(value).isdecimal() for value in raw):
        # Names are taken from all rows, so that every split has the same classes.
        named = zip(columns[str(label)], columns[name], strict=True)
        pairs = ((int(number), str(word)) for number, word in named if str(number).isdecimal())
        given_names = ClassNames(classes_by_label(pairs, str(file)))
    return resolve_labels(raw, given_names, str(file))


def table_of_paths(
    columns: Columns, file: Path, folder: Path, given_names: ClassNames | None, *, split: str, strict: bool
) -> Dataset:
    """Load the images whose paths a table lists, in its order. The paths are relative to `folder`."""
    images = image_column(columns, file)
    rows = rows_of_split(columns, split, file)
    class_names, labels = labels_of(columns, rows, given_names, file)
    paths = [str(columns[images][row]) for row in rows]
    listing = Listing(folder, class_names, list(zip(paths, labels, strict=True)), str(file))
    items, notes = items_of(listing, strict=strict)
    notes += note_empty_classes(class_names, items)
    return Dataset(file.stem, split, class_names, items, source=str(file), notes=notes)


def table_of_bytes(
    columns: Columns,
    file: Path,
    read: Callable[[int], tuple[str, Callable[[], Source]]],
    given_names: ClassNames | None,
    *,
    split: str,
) -> Dataset:
    """Load the images that a table contains; `read` returns the key and the reader of a row."""
    rows = rows_of_split(columns, split, file)
    class_names, labels = labels_of(columns, rows, given_names, file)
    items = []
    for row, label in zip(rows, labels, strict=True):
        key, reader = read(row)
        items.append(Item(key, label, reader))
    notes = note_empty_classes(class_names, items)
    return Dataset(file.stem, split, class_names, tuple(items), source=str(file), notes=notes)
