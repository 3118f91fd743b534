"""Parquet files and Hugging Face's Arrow folders, read with pyarrow alone. An item reads only its own row group."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.datasets.files import (
    SPLIT_OF,
    import_optional,
    natural_order,
    quote_some,
    read_json,
    relative_path,
    subfolders,
)
from cosmic_tta.data.datasets.tabular import (
    LABEL_COLUMNS,
    NAME_COLUMNS,
    SPLIT_COLUMNS,
    Columns,
    image_column,
    table_of_bytes,
    table_of_paths,
)
from cosmic_tta.data.images.decode import Source

CACHED_PARTS = 4  # per process


@dataclass(frozen=True, slots=True)
class ArrowImageReader:
    """Reads the image in one row of a Parquet row group or of an Arrow file."""

    file: str
    row_group: int  # 0 in an Arrow file
    row: int  # within the row group
    column: str

    def __call__(self) -> Source:
        """Return the bytes of the image, or its path if the row has no bytes."""
        cells = _read_column(self.file, self.row_group, self.column)
        value = _refuse_damage(self.file, cells[self.row].as_py) if self.row < len(cells) else None
        if isinstance(value, Mapping):
            path, folder = value.get("path"), Path(self.file).parent
            value = value.get("bytes") or (path and str(folder / relative_path(path, folder)))
        if not value:
            raise DatasetError(f"{self.file!r}, row {self.row} of row group {self.row_group}: the image is empty.")
        image: bytes | str = value
        return image


@dataclass(frozen=True)
class ArrowTable:
    """Several files as one table. Columns are read on demand, images one by one."""

    files: tuple[Path, ...]
    schema: Any
    row_groups: tuple[tuple[Path, int, int], ...]  # file, number of the row group, rows
    read: Callable[[list[str]], Columns]
    features: Any  # Hugging Face's types of the columns

    def image_reader(self, ends: Sequence[int], column: str, row: int) -> tuple[str, Callable[[], Source]]:
        """Return the key and the reader of a row's image; `ends` are the cumulative sizes of the row groups."""
        index = bisect_right(ends, row)
        file, row_group, rows = self.row_groups[index]
        inner = row - (ends[index] - rows)
        return f"{file.name}#{row_group}.{inner}", ArrowImageReader(str(file.absolute()), row_group, inner, column)


def load_parquet(
    files: Sequence[Path], folder: Path, given_names: ClassNames | None, *, split: str, strict: bool, name: str
) -> Dataset:
    """Load Parquet files of paths and labels, or of images and labels as Hugging Face writes them."""
    opened = [_open_parquet(file) for file in files]
    row_groups = tuple(
        (file, group, parquet.metadata.row_group(group).num_rows)
        for file, parquet in zip(files, opened, strict=True)
        for group in range(parquet.metadata.num_row_groups)
    )

    def read(names: list[str]) -> Columns:
        reads = [partial(parquet.read, columns=names) for parquet in opened]
        return _columns([_refuse_damage(file, one) for file, one in zip(files, reads, strict=True)], names)

    schema = _common_schema(files, [parquet.schema_arrow for parquet in opened])
    table = ArrowTable(tuple(files), schema, row_groups, read, _schema_features(schema))
    return replace(_load(table, folder, given_names, split=split, strict=strict), name=name)


def find_parquet(folder: Path, split: str) -> list[Path] | None:
    """Return the Parquet files of a split in a folder, its `data` or its split folders; None if there are none."""
    parents = [folder, folder / "data", *(folder / name for name in subfolders(folder) if name.lower() in SPLIT_OF)]
    files = [
        file
        for parent in parents
        for file in sorted(parent.glob("*.parquet"), key=lambda path: natural_order(path.name))
    ]
    if not files:
        return None
    splits = {file: _split_in_name(file, folder) for file in files}
    chosen = [file for file in files if splits[file] in (split, None)]
    if not chosen:
        others = sorted({own for own in splits.values() if own})
        raise DatasetError(f"{str(folder)!r} has no Parquet file of the split {split!r}; it has {quote_some(others)}.")
    _check_complete(chosen)
    return chosen


def is_saved(folder: Path) -> bool:
    """Return whether Hugging Face's `save_to_disk` wrote a folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def load_saved(folder: Path, given_names: ClassNames | None, *, split: str, strict: bool) -> Dataset:
    """Load a folder that `save_to_disk` wrote: one split, or one folder per split."""
    inner = _saved_split(folder, split)
    state = read_json(inner / "state.json")
    entries = state.get("_data_files") if isinstance(state, dict) else None
    names = [str(entry["filename"]) for entry in entries or () if isinstance(entry, dict) and "filename" in entry]
    if not names:
        raise DatasetError(f"{str(inner / 'state.json')!r} names no data file; save the data set again.")
    if state.get("_indices_data_files"):
        raise DatasetError(f"{str(inner)!r} is a selection of other rows: call flatten_indices() and save it again.")
    files = tuple(inner / relative_path(name, inner) for name in names)
    tables = [_map_arrow(str(file)) for file in files]
    schema = _common_schema(files, [table.schema for table in tables])
    info = read_json(inner / "dataset_info.json") if (inner / "dataset_info.json").is_file() else None
    features = (info.get("features") if isinstance(info, dict) else None) or _schema_features(schema)
    row_groups = tuple((file, 0, table.num_rows) for file, table in zip(files, tables, strict=True))
    table = ArrowTable(files, schema, row_groups, partial(_columns, tables), features)
    return replace(_load(table, inner, given_names, split=split, strict=strict), name=folder.resolve().name)


def _load(table: ArrowTable, folder: Path, given_names: ClassNames | None, *, split: str, strict: bool) -> Dataset:
    first, names = table.files[0], table.schema.names
    image = _image_column(table)
    types, kind = import_optional("pyarrow", str(first)).types, table.schema.field(image).type
    path_columns = [image] if types.is_string(kind) or types.is_large_string(kind) else []
    class_columns = [name for name in names if _is_feature(table.features, name, "ClassLabel")][:1]
    known = {*LABEL_COLUMNS, *NAME_COLUMNS, *SPLIT_COLUMNS}
    wanted = [name for name in names if name.lower() in known or name in path_columns + class_columns]
    columns = dict(table.read(wanted))
    for name in class_columns:
        # -1 is the label of an unlabelled image.
        columns["label"] = [None if number == -1 else number for number in columns[name.lower()]]
        given_names = given_names or ClassNames(tuple(map(str, table.features[name].get("names") or ())))
    if path_columns:
        columns["path"] = columns[image.lower()]
        return table_of_paths(columns, first, folder, given_names, split=split, strict=strict)
    ends = list(accumulate(rows for _, _, rows in table.row_groups))
    if not ends or not ends[-1]:
        raise DatasetError(f"{str(first)!r} has no row.")
    columns = columns or {"": [None] * ends[-1]}
    return table_of_bytes(columns, first, partial(table.image_reader, ends, image), given_names, split=split)


def _image_column(table: ArrowTable) -> str:
    typed: list[str] = [name for name in table.schema.names if _is_feature(table.features, name, "Image")]
    if typed:
        return typed[0]
    known: dict[str, tuple[str]] = {name.lower(): (name,) for name in table.schema.names}
    return known[image_column(known, table.files[0])][0]


def _common_schema(files: Sequence[Path], schemas: Sequence[Any]) -> Any:
    if any(other.names != schemas[0].names for other in schemas):
        raise DatasetError(
            f"{quote_some(file.name for file in files)} have different columns; they cannot be one data set."
        )
    return schemas[0]


def _schema_features(schema: Any) -> Any:
    """Return Hugging Face's types of the columns, from the metadata of the schema."""
    metadata = (schema.metadata or {}).get(b"huggingface")
    try:
        return json.loads(metadata)["info"]["features"] if metadata else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _is_feature(features: Any, name: str, kind: str) -> bool:
    feature = features.get(name) if isinstance(features, dict) else None
    return isinstance(feature, dict) and feature.get("_type") == kind


def _columns(tables: Sequence[Any], names: Sequence[str]) -> Columns:
    return {name.lower(): [value for table in tables for value in table.column(name).to_pylist()] for name in names}


def _split_in_name(file: Path, folder: Path) -> str | None:
    """Return the split that the name of a file or of its folder begins with."""
    first = re.split(r"[-_.]", file.name.lower(), maxsplit=1)[0]
    return SPLIT_OF.get(first) or (SPLIT_OF.get(file.parent.name.lower()) if file.parent != folder else None)


def _check_complete(files: Sequence[Path]) -> None:
    """Refuse numbered files, such as `test-00000-of-00002.parquet`, of which some are missing."""
    for file in files:
        counted = re.search(r"-([0-9]+)-of-([0-9]+)\.parquet$", file.name)
        if counted:
            expected = {f"-{number:0{len(counted[1])}d}-of-{counted[2]}" for number in range(int(counted[2]))}
            names = [other.stem for other in files]
            missing = [ending for ending in sorted(expected) if not any(name.endswith(ending) for name in names)]
            if missing:
                raise DatasetError(
                    f"{len(missing)} files beside {file.name!r} are missing: {quote_some(missing)}. Download them too."
                )


def _saved_split(folder: Path, split: str) -> Path:
    if not (folder / "dataset_dict.json").is_file():
        return folder
    splits = [name for name in subfolders(folder) if (folder / name / "state.json").is_file()]
    found = [name for name in splits if SPLIT_OF.get(name.lower()) == split]
    if not found:
        raise DatasetError(f"{str(folder)!r} has no split {split!r}; it has {quote_some(splits)}.")
    return folder / found[0]


def _refuse_damage(file: Path | str, read: Callable[[], Any]) -> Any:
    """Call a reader of a file, and turn its errors into ours."""
    try:
        return read()
    except (OSError, ValueError, KeyError, import_optional("pyarrow", str(file)).ArrowException) as error:
        raise DatasetError(
            f"{str(file)!r} is missing or damaged ({str(error).splitlines()[0]:.100}). Download it again."
        ) from error


def _open_parquet(file: Path | str) -> Any:
    module = import_optional("pyarrow.parquet", str(file))
    return _refuse_damage(file, lambda: module.ParquetFile(file))


@lru_cache(maxsize=CACHED_PARTS)
def _map_arrow(file: str) -> Any:
    """Map an Arrow file, of the stream or of the random-access format, into memory."""
    arrow, ipc = import_optional("pyarrow", file), import_optional("pyarrow.ipc", file)

    def read() -> Any:
        with open(file, "rb") as start:
            random_access = start.read(6) == b"ARROW1"
        mapped = arrow.memory_map(file)
        table = (ipc.open_file if random_access else ipc.open_stream)(mapped).read_all()
        table.validate(full=True)  # a damaged offset would point outside the file
        return table

    return _refuse_damage(file, read)


@lru_cache(maxsize=CACHED_PARTS)
def _read_column(file: str, row_group: int, name: str) -> Any:
    if file.endswith(".parquet"):
        return _refuse_damage(file, lambda: _open_parquet(file).read_row_group(row_group, columns=[name]).column(name))
    return _map_arrow(file).column(name)
