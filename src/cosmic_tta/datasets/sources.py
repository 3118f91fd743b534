"""Whatever a user points at: a data set's name, a folder, a table, shards; which of them is told by looking."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosmic_tta.datasets import arrow, shards
from cosmic_tta.datasets.base import Dataset
from cosmic_tta.datasets.catalogue import CATALOGUE, find, load_published, published, recognise
from cosmic_tta.datasets.embedded import NAME as EMBEDDED
from cosmic_tta.datasets.embedded import photographs
from cosmic_tta.datasets.files import SPLIT_OF, checked_split, few, pictures_in, subfolders
from cosmic_tta.datasets.folders import class_folders, flat_folder
from cosmic_tta.datasets.layouts import NAMES_FILE
from cosmic_tta.datasets.tables import read_csv, table_of_paths
from cosmic_tta.errors import DatasetError, unknown_name
from cosmic_tta.prompts import ClassNames, read_class_names

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Wish:
    """What a user asks of a source beside its place."""

    split: str
    strict: bool
    blanks: bool
    root: Path | None
    classes_file: Path | None

    def names(self, *folders: Path) -> ClassNames | None:
        """Return the class names that the user's file tells, or `classnames.txt` in one of some folders."""
        files = [self.classes_file] if self.classes_file else [folder / NAMES_FILE for folder in folders]
        return next((read_class_names(file) for file in files if self.classes_file or file.is_file()), None)


def open_source(
    source: AnyPath,
    *,
    root: AnyPath | None = None,
    split: str = "test",
    classes_file: AnyPath | None = None,
    strict: bool = True,
    blanks: bool = True,
) -> Dataset:
    """Open pictures wherever they lie; what they are is told by looking.

    `mini` names the photographs that ship with the package. Else the first rule that fits counts:

    1. With `root`, or where no such path is there: the name of a published data set, which lies under `root`.
    2. A file by its suffix: `.csv` and `.tsv` are tables of paths and labels (paths relative to `root`, else to the
       table); `.parquet` is such a table or holds the pictures; `.tar`, also with a pattern such as
       `shards-{000..003}.tar`, are WebDataset shards.
    3. A folder that holds the split file of a published data set, or has its name and its layout, is that data set.
    4. A folder with `dataset_dict.json` or `state.json` was saved by Hugging Face's `save_to_disk`.
    5. A folder with `.parquet` files, in itself, in `data` or in folders called as splits.
    6. A folder with `.tar` files, in itself or in a folder called as the split.
    7. A folder whose folders are all called as splits (train, val, test): go on with the folder of the split.
    8. A folder with folders: each of them is a class.
    9. A folder with pictures: they have no labels, and `classes_file` must name the classes.

    Where no `classes_file` is given, a `classnames.txt` in the folder (or above its shards) takes its place.

    Args:
        source: a name, a path or a pattern of paths.
        root: the folder that published data sets lie under.
        split: train, val or test, where the source has splits.
        classes_file: class names, in the order of their labels; see `read_class_names`.
        strict: refuse a partial copy: absent pictures, unexpected counts, empty class folders.
        blanks: turn underscores of folder names into blanks.
    """
    text, path = os.fspath(source), Path(source)
    places = [None if place is None else Path(place) for place in (root, classes_file)]
    wish = Wish(checked_split(split), strict, blanks, places[0], places[1])
    if text == EMBEDDED and not path.exists():
        return photographs()
    if wish.root is not None and find(text) is not None:
        return load_published(published(text), wish.root, wish.split, strict=strict, classes_file=wish.classes_file)
    if path.suffix.lower() == ".tar":
        return _shards(path, wish)
    if path.is_dir():
        return _folder(path, wish)
    if path.is_file():
        reader = FILES.get(path.suffix.lower())
        if reader is None:
            raise DatasetError(f"{text!r} is no source of pictures: give a folder, {', '.join(sorted(FILES))} or .tar.")
        return reader(path, wish)
    if find(text) is not None:
        raise DatasetError(f"{text!r} is a published data set: say which folder it lies under (root, --root).")
    if len(path.parts) == 1 and not path.suffix:
        raise unknown_name("file, folder or data set", text, (EMBEDDED, *CATALOGUE))
    raise DatasetError(
        f"there is no {text!r}; give a folder, a table, shards, or the name of a data set with its root."
    )


def load_dataset(
    name_or_path: AnyPath,
    root: AnyPath | None = None,
    split: str = "test",
    *,
    strict: bool = True,
    classes_file: AnyPath | None = None,
) -> Dataset:
    """Load a published data set by its name under `root`, or whatever lies at a path; see `open_source`."""
    return open_source(name_or_path, root=root, split=split, strict=strict, classes_file=classes_file)


def _folder(folder: Path, wish: Wish) -> Dataset:
    row = recognise(folder)
    if row is not None:
        return load_published(row, folder, wish.split, strict=wish.strict, classes_file=wish.classes_file)
    if arrow.is_saved(folder):
        return arrow.saved(folder, wish.names(folder), split=wish.split, strict=wish.strict)
    files = arrow.parquet_folder(folder, wish.split)
    if files is not None:
        return _parquet(files, folder, wish)
    tars = shards.shards_in(folder, wish.split)
    if tars:
        names = wish.names(folder, folder.parent)
        return shards.shards(tars, names, split=wish.split, name=folder.resolve().name)
    inner = subfolders(folder)
    splits = {SPLIT_OF.get(name.lower()): name for name in inner}
    if inner and None not in splits:
        if len(splits) < len(inner):
            raise DatasetError(
                f"{str(folder)!r} has a split twice: {few(inner, 6)}. Give the folder of the one you mean."
            )
        if wish.split not in splits:
            raise DatasetError(f"{str(folder)!r} has no split {wish.split!r}; it has {few(inner)}.")
        return _pictures(folder / splits[wish.split], wish, wish.names(folder))
    return _pictures(folder, wish, wish.names(folder))


def _pictures(folder: Path, wish: Wish, told: ClassNames | None) -> Dataset:
    inner = subfolders(folder)
    if inner and any(pictures_in(folder / name, deep=True).paths for name in inner):
        return class_folders(folder, told, split=wish.split, strict=wish.strict, blanks=wish.blanks)
    if not pictures_in(folder).paths:
        raise DatasetError(f"{str(folder)!r} holds no picture, nor do its folders; give a folder of pictures.")
    return flat_folder(folder, told, split=wish.split)


def _table(file: Path, wish: Wish) -> Dataset:
    folder = wish.root or file.parent
    return table_of_paths(read_csv(file), file, folder, wish.names(), split=wish.split, strict=wish.strict)


def _parquet(files: list[Path], folder: Path, wish: Wish) -> Dataset:
    name = files[0].stem if folder == files[0] else folder.resolve().name
    place = wish.root or files[0].parent
    return arrow.parquet(files, place, wish.names(folder), split=wish.split, strict=wish.strict, name=name)


def _one_parquet(file: Path, wish: Wish) -> Dataset:
    return _parquet([file], file, wish)


def _shards(pattern: Path, wish: Wish) -> Dataset:
    files = [Path(name) for name in shards.expand(str(pattern))]
    names = wish.names(files[0].parent, files[0].parent.parent)
    return shards.shards(files, names, split=wish.split, name=pattern.stem)


FILES: Mapping[str, Callable[[Path, Wish], Dataset]] = {".csv": _table, ".tsv": _table, ".parquet": _one_parquet}
