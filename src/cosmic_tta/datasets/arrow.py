"""Parquet files and Hugging Face's Arrow folders, read with pyarrow alone; an item reads only its own part."""

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

from cosmic_tta.datasets.base import Dataset
from cosmic_tta.datasets.files import SPLIT_OF, few, inside, natural, optional, read_json, subfolders
from cosmic_tta.datasets.tables import LABELS, NAMES, SPLIT, Columns, picture_column, table_of_bytes, table_of_paths
from cosmic_tta.errors import DatasetError
from cosmic_tta.pictures import Source
from cosmic_tta.prompts import ClassNames

KEPT = 4  # parts of files that a process keeps open


@dataclass(frozen=True, slots=True)
class CellReader:
    """Reads the picture in one cell of a Parquet row group or of an Arrow file."""

    file: str
    part: int  # row group; 0 in an Arrow file
    row: int  # within that part
    column: str

    def __call__(self) -> Source:
        """Return the picture's bytes, or the path that stands in their place."""
        cells = _part(self.file, self.part, self.column)
        value = _guarded(self.file, cells[self.row].as_py) if self.row < len(cells) else None
        if isinstance(value, Mapping):
            told = value.get("path")
            value = value.get("bytes") or (told and str(Path(self.file).parent / inside(told, Path(self.file).parent)))
        if not value:
            raise DatasetError(f"{self.file!r}, row {self.row} of part {self.part}: the picture is empty.")
        picture: bytes | str = value
        return picture


@dataclass(frozen=True)
class Frame:
    """Some files as one table: columns are read when asked for, pictures one by one."""

    files: tuple[Path, ...]
    schema: Any
    parts: tuple[tuple[Path, int, int], ...]  # file, part of it, rows
    read: Callable[[list[str]], Columns]
    features: Any  # what Hugging Face notes of the columns

    def cell(self, ends: Sequence[int], column: str, row: int) -> tuple[str, Callable[[], Source]]:
        """Return the key of a row's picture and its reader; `ends` are the parts' last rows, exclusive."""
        place = bisect_right(ends, row)
        file, part, rows = self.parts[place]
        inner = row - (ends[place] - rows)
        return f"{file.name}#{part}.{inner}", CellReader(str(file.absolute()), part, inner, column)


def parquet(
    files: Sequence[Path], folder: Path, told: ClassNames | None, *, split: str, strict: bool, name: str
) -> Dataset:
    """Load Parquet files of paths and labels, or of pictures and labels as Hugging Face writes them."""
    opened = [_opened(file) for file in files]
    parts = tuple(
        (file, group, one.metadata.row_group(group).num_rows)
        for file, one in zip(files, opened, strict=True)
        for group in range(one.metadata.num_row_groups)
    )

    def read(names: list[str]) -> Columns:
        reads = [partial(one.read, columns=names) for one in opened]
        return _columns([_guarded(file, one) for file, one in zip(files, reads, strict=True)], names)

    schema = _one_schema(files, [one.schema_arrow for one in opened])
    frame = Frame(tuple(files), schema, parts, read, _noted(schema))
    return replace(_load(frame, folder, told, split=split, strict=strict), name=name)


def parquet_folder(folder: Path, split: str) -> list[Path] | None:
    """Return the Parquet files of a split in a folder, its `data` or its split folders; None if there are none."""
    places = [folder, folder / "data", *(folder / name for name in subfolders(folder) if name.lower() in SPLIT_OF)]
    files = [file for place in places for file in sorted(place.glob("*.parquet"), key=lambda file: natural(file.name))]
    if not files:
        return None
    told = {file: _told_split(file, folder) for file in files}
    chosen = [file for file in files if told[file] in (split, None)]
    if not chosen:
        there = sorted({word for word in told.values() if word})
        raise DatasetError(f"{str(folder)!r} has no Parquet file of the split {split!r}; it has {few(there)}.")
    _all_there(chosen)
    return chosen


def is_saved(folder: Path) -> bool:
    """Tell whether a folder is one that Hugging Face's `save_to_disk` wrote."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def saved(folder: Path, told: ClassNames | None, *, split: str, strict: bool) -> Dataset:
    """Load a folder that `save_to_disk` wrote: one split, or a folder for each."""
    inner = _saved_split(folder, split)
    state = read_json(inner / "state.json")
    entries = state.get("_data_files") if isinstance(state, dict) else None
    names = [str(entry["filename"]) for entry in entries or () if isinstance(entry, dict) and "filename" in entry]
    if not names:
        raise DatasetError(f"{str(inner / 'state.json')!r} names no data file; save the data set anew.")
    if state.get("_indices_data_files"):
        raise DatasetError(f"{str(inner)!r} is a selection of other rows: call flatten_indices() and save it anew.")
    files = tuple(inner / inside(name, inner) for name in names)
    tables = [_table(str(file)) for file in files]
    schema = _one_schema(files, [table.schema for table in tables])
    info = read_json(inner / "dataset_info.json") if (inner / "dataset_info.json").is_file() else None
    features = (info.get("features") if isinstance(info, dict) else None) or _noted(schema)
    parts = tuple((file, 0, table.num_rows) for file, table in zip(files, tables, strict=True))
    frame = Frame(files, schema, parts, partial(_columns, tables), features)
    return replace(_load(frame, inner, told, split=split, strict=strict), name=folder.resolve().name)


def _load(frame: Frame, folder: Path, told: ClassNames | None, *, split: str, strict: bool) -> Dataset:
    first, names = frame.files[0], frame.schema.names
    picture = _picture_column(frame)
    types, kind = optional("pyarrow", str(first)).types, frame.schema.field(picture).type
    paths = [picture] if types.is_string(kind) or types.is_large_string(kind) else []
    coded = [name for name in names if _is_feature(frame.features, name, "ClassLabel")][:1]
    telling = {*LABELS, *NAMES, *SPLIT}
    columns = dict(frame.read([name for name in names if name.lower() in telling or name in paths + coded]))
    for name in coded:
        # A picture that is not labelled has -1 there.
        columns["label"] = [None if number == -1 else number for number in columns[name.lower()]]
        told = told or ClassNames(tuple(map(str, frame.features[name].get("names") or ())))
    if paths:
        columns["path"] = columns[picture.lower()]
        return table_of_paths(columns, first, folder, told, split=split, strict=strict)
    ends = list(accumulate(rows for _, _, rows in frame.parts))
    if not ends or not ends[-1]:
        raise DatasetError(f"{str(first)!r} has no row.")
    columns = columns or {"": [None] * ends[-1]}
    return table_of_bytes(columns, first, partial(frame.cell, ends, picture), told, split=split)


def _picture_column(frame: Frame) -> str:
    typed: list[str] = [name for name in frame.schema.names if _is_feature(frame.features, name, "Image")]
    if typed:
        return typed[0]
    known: dict[str, tuple[str]] = {name.lower(): (name,) for name in frame.schema.names}
    return known[picture_column(known, frame.files[0])][0]


def _one_schema(files: Sequence[Path], schemas: Sequence[Any]) -> Any:
    if any(other.names != schemas[0].names for other in schemas):
        raise DatasetError(f"{few(file.name for file in files)} have different columns; they cannot be one data set.")
    return schemas[0]


def _noted(schema: Any) -> Any:
    """Return what Hugging Face notes of the columns in the schema's metadata."""
    noted = (schema.metadata or {}).get(b"huggingface")
    try:
        return json.loads(noted)["info"]["features"] if noted else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _is_feature(features: Any, name: str, kind: str) -> bool:
    feature = features.get(name) if isinstance(features, dict) else None
    return isinstance(feature, dict) and feature.get("_type") == kind


def _columns(tables: Sequence[Any], names: Sequence[str]) -> Columns:
    return {name.lower(): [value for table in tables for value in table.column(name).to_pylist()] for name in names}


def _told_split(file: Path, folder: Path) -> str | None:
    """Return the split that a file's name or its folder tells."""
    first = re.split(r"[-_.]", file.name.lower(), maxsplit=1)[0]
    return SPLIT_OF.get(first) or (SPLIT_OF.get(file.parent.name.lower()) if file.parent != folder else None)


def _all_there(files: Sequence[Path]) -> None:
    for file in files:
        counted = re.search(r"-([0-9]+)-of-([0-9]+)\.parquet$", file.name)
        if counted:
            wanted = {f"-{number:0{len(counted[1])}d}-of-{counted[2]}" for number in range(int(counted[2]))}
            names = [other.stem for other in files]
            absent = [part for part in sorted(wanted) if not any(name.endswith(part) for name in names)]
            if absent:
                raise DatasetError(f"{len(absent)} files beside {file.name!r} are absent: {few(absent)}. Get them too.")


def _saved_split(folder: Path, split: str) -> Path:
    if not (folder / "dataset_dict.json").is_file():
        return folder
    there = [name for name in subfolders(folder) if (folder / name / "state.json").is_file()]
    found = [name for name in there if SPLIT_OF.get(name.lower()) == split]
    if not found:
        raise DatasetError(f"{str(folder)!r} has no split {split!r}; it has {few(there)}.")
    return folder / found[0]


def _guarded(file: Path | str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, ValueError, KeyError, optional("pyarrow", str(file)).ArrowException) as error:
        raise DatasetError(
            f"{str(file)!r} is absent or damaged ({str(error).splitlines()[0]:.100}). Get it anew."
        ) from error


def _opened(file: Path | str) -> Any:
    module = optional("pyarrow.parquet", str(file))
    return _guarded(file, lambda: module.ParquetFile(file))


@lru_cache(maxsize=KEPT)
def _table(file: str) -> Any:
    """Map an Arrow file, of the stream or of the random-access format, into memory."""
    arrow, ipc = optional("pyarrow", file), optional("pyarrow.ipc", file)

    def read() -> Any:
        with open(file, "rb") as start:
            whole = start.read(6) == b"ARROW1"
        mapped = arrow.memory_map(file)
        table = (ipc.open_file if whole else ipc.open_stream)(mapped).read_all()
        table.validate(full=True)  # a damaged offset would point outside the file
        return table

    return _guarded(file, read)


@lru_cache(maxsize=KEPT)
def _part(file: str, part: int, name: str) -> Any:
    if file.endswith(".parquet"):
        return _guarded(file, lambda: _opened(file).read_row_group(part, columns=[name]).column(name))
    return _table(file).column(name)
