"""Images from any source: the name of a data set, a folder, a table, shards. The kind is recognised."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosmic_tta.core.errors import DatasetError, unknown_name
from cosmic_tta.data.class_names import ClassNames, read_class_names
from cosmic_tta.data.datasets import arrow, webdataset
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.datasets.embedded import NAME as EMBEDDED
from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.datasets.files import SPLIT_OF, canonical_split, images_in, quote_some, subfolders
from cosmic_tta.data.datasets.image_folder import class_folders, flat_folder
from cosmic_tta.data.datasets.layouts import NAMES_FILE, PublishedDataset
from cosmic_tta.data.datasets.registry import CATALOGUE, find, load_published, published, recognise
from cosmic_tta.data.datasets.tabular import read_csv, table_of_paths

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class SourceOptions:
    """The options of `open_source`."""

    split: str
    strict: bool
    replace_underscores: bool
    root: Path | None
    classes_file: Path | None

    def class_names(self, *folders: Path) -> ClassNames | None:
        """Return the class names of the user's file, or of the first `classnames.txt` in these folders."""
        files = [self.classes_file] if self.classes_file else [folder / NAMES_FILE for folder in folders]
        return next((read_class_names(file) for file in files if self.classes_file or file.is_file()), None)


def open_source(
    source: AnyPath,
    *,
    root: AnyPath | None = None,
    split: str = "test",
    classes_file: AnyPath | None = None,
    strict: bool = True,
    replace_underscores: bool = True,
) -> Dataset:
    """Open images of any source; its kind is recognised.

    `mini` names the photographs of the package. Otherwise the first rule that fits is used:

    1. The name of a published data set, with `root` or if there is no such path. It is looked up under `root`.
    2. A file, by its suffix. `.csv` and `.tsv` are tables of paths and labels; paths are relative to `root`, else
       to the table. `.parquet` is such a table or contains the images. `.tar` files are WebDataset shards, also with
       a pattern such as `shards-{000..003}.tar`.
    3. A folder with the split file of a published data set, or with its name and layout, is that data set.
    4. A folder with `dataset_dict.json` or `state.json` was saved by Hugging Face's `save_to_disk`.
    5. A folder with `.parquet` files, in itself, in `data` or in folders named like splits.
    6. A folder with `.tar` files, in itself or in a folder named like the split.
    7. A folder whose folders are all named like splits (train, val, test): the folder of the split is opened.
    8. A folder with folders: each of them is a class.
    9. A folder with images: they have no labels, and `classes_file` must name the classes.

    Without `classes_file`, a `classnames.txt` in the folder (or above its shards) is used.

    Args:
        source: A name, a path or a pattern of paths.
        root: The folder that contains published data sets.
        split: `train`, `val` or `test`, if the source has splits.
        classes_file: Class names, in the order of their labels; see `read_class_names`.
        strict: Refuse a partial copy: missing images, unexpected counts, empty class folders.
        replace_underscores: Replace underscores in folder names by spaces.

    Returns:
        The images and classes of one split.

    Raises:
        DatasetError: The source is missing, damaged or incomplete.
        UnknownNameError: There is no such path and no such data set.

    Examples:
        >>> dataset = open_source("mini")
        >>> dataset.name, dataset.split, len(dataset)
        ('mini', 'test', 2000)
    """
    text, path = os.fspath(source), Path(source)
    options = SourceOptions(
        canonical_split(split),
        strict,
        replace_underscores,
        None if root is None else Path(root),
        None if classes_file is None else Path(classes_file),
    )
    return _open(text, path, options)


def load_dataset(
    name_or_path: AnyPath,
    root: AnyPath | None = None,
    split: str = "test",
    *,
    strict: bool = True,
    classes_file: AnyPath | None = None,
) -> Dataset:
    """Load a published data set by its name under `root`, or the source at a path; see `open_source`.

    Args:
        name_or_path: The name of a data set, or a path.
        root: The folder that contains published data sets.
        split: `train`, `val` or `test`.
        strict: Refuse a partial copy.
        classes_file: Class names, in the order of their labels.

    Returns:
        The images and classes of one split.

    Raises:
        DatasetError: The data set is missing, damaged or incomplete.
        UnknownNameError: There is no such path and no such data set.

    Examples:
        >>> load_dataset("mini").class_names[-1]
        'truck'
    """
    return open_source(name_or_path, root=root, split=split, strict=strict, classes_file=classes_file)


def _open(text: str, path: Path, options: SourceOptions) -> Dataset:
    if text == EMBEDDED and not path.exists():
        return photographs()
    if options.root is not None and find(text) is not None:
        return _published(published(text), options.root, options)
    if path.suffix.lower() == ".tar":
        return _shards(path, options)
    if path.is_dir():
        return _folder(path, options)
    if path.is_file():
        reader = FILES.get(path.suffix.lower())
        if reader is None:
            raise DatasetError(
                f"{text!r} is not a source of images: give a folder, {', '.join(sorted(FILES))} or .tar."
            )
        return reader(path, options)
    if find(text) is not None:
        raise DatasetError(f"{text!r} is a published data set: give the folder that contains it (root, --root).")
    if len(path.parts) == 1 and not path.suffix:
        raise unknown_name("file, folder or data set", text, (EMBEDDED, *CATALOGUE))
    raise DatasetError(
        f"there is no {text!r}; give a folder, a table, shards, or the name of a data set with its root."
    )


def _published(entry: PublishedDataset, root: Path, options: SourceOptions) -> Dataset:
    return load_published(entry, root, options.split, strict=options.strict, classes_file=options.classes_file)


def _folder(folder: Path, options: SourceOptions) -> Dataset:
    entry = recognise(folder)
    if entry is not None:
        return _published(entry, folder, options)
    if arrow.is_saved(folder):
        return arrow.load_saved(folder, options.class_names(folder), split=options.split, strict=options.strict)
    files = arrow.find_parquet(folder, options.split)
    if files is not None:
        return _parquet(files, folder, options)
    tars = webdataset.shards_in(folder, options.split)
    if tars:
        names = options.class_names(folder, folder.parent)
        return webdataset.load_shards(tars, names, split=options.split, name=folder.resolve().name)
    inner = subfolders(folder)
    splits = {SPLIT_OF.get(name.lower()): name for name in inner}
    if inner and None not in splits:
        if len(splits) < len(inner):
            raise DatasetError(
                f"{str(folder)!r} has a split twice: {quote_some(inner, 6)}. Give the folder of one of them."
            )
        if options.split not in splits:
            raise DatasetError(f"{str(folder)!r} has no split {options.split!r}; it has {quote_some(inner)}.")
        return _images(folder / splits[options.split], options, options.class_names(folder))
    return _images(folder, options, options.class_names(folder))


def _images(folder: Path, options: SourceOptions, given_names: ClassNames | None) -> Dataset:
    inner = subfolders(folder)
    if inner and any(images_in(folder / name, deep=True).paths for name in inner):
        return class_folders(
            folder,
            given_names,
            split=options.split,
            strict=options.strict,
            replace_underscores=options.replace_underscores,
        )
    if not images_in(folder).paths:
        raise DatasetError(f"{str(folder)!r} and its folders contain no image; give a folder of images.")
    return flat_folder(folder, given_names, split=options.split)


def _table(file: Path, options: SourceOptions) -> Dataset:
    folder = options.root or file.parent
    return table_of_paths(
        read_csv(file), file, folder, options.class_names(), split=options.split, strict=options.strict
    )


def _parquet(files: list[Path], folder: Path, options: SourceOptions) -> Dataset:
    name = files[0].stem if folder == files[0] else folder.resolve().name
    image_folder = options.root or files[0].parent
    return arrow.load_parquet(
        files, image_folder, options.class_names(folder), split=options.split, strict=options.strict, name=name
    )


def _one_parquet(file: Path, options: SourceOptions) -> Dataset:
    return _parquet([file], file, options)


def _shards(pattern: Path, options: SourceOptions) -> Dataset:
    files = [Path(name) for name in webdataset.expand(str(pattern))]
    names = options.class_names(files[0].parent, files[0].parent.parent)
    return webdataset.load_shards(files, names, split=options.split, name=pattern.stem)


FILES: Mapping[str, Callable[[Path, SourceOptions], Dataset]] = {
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _one_parquet,
}
