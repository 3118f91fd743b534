"""Layouts of published data sets on disk. A layout is a frozen value that can list the images of a split."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import WORDNET_ID, ClassNames, disambiguate, read_class_names
from cosmic_tta.data.datasets.build import Entry, Listing, classes_by_label, label_of
from cosmic_tta.data.datasets.files import images_in, quote_some, read_json, read_text, subfolders
from cosmic_tta.data.prompts import TEMPLATES

Sizes = Mapping[str, int]  # split → number of images
NAMES_FILE = "classnames.txt"


@dataclass(frozen=True)
class DatasetLocation:
    """The folder of a data set, and where its class names may be found."""

    folder: Path
    root: Path
    classes_file: Path | None = None


class Layout(Protocol):
    """One way in which a data set may be laid out on disk."""

    @property
    def required_paths(self) -> tuple[str, ...]:
        """Patterns of files and folders; a folder has this layout if it has all of them."""
        ...

    @property
    def sizes(self) -> Sizes | None:
        """How many images each split has, if that differs from the paper."""
        ...

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether a split exists."""
        ...

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List the images of a split."""
        ...


@dataclass(frozen=True)
class PublishedDataset:
    """One published data set."""

    key: str
    title: str  # as in the paper
    folders: tuple[str, ...]  # possible folders under the root, that of the CoOp project first
    layouts: tuple[Layout, ...]  # the first that fits is used
    classes: int
    sizes: Sizes
    task: str
    source: str
    licence: str = ""  # if the publishers state one
    aliases: tuple[str, ...] = ()

    @property
    def templates(self) -> tuple[str, ...]:
        """The paper's prompts."""
        return TEMPLATES[self.key]


@dataclass(frozen=True)
class SplitFile:
    """One JSON for all splits, as the CoOp project publishes them: {split: [[path, label, class name], ...]}."""

    file: str
    images: str
    renames: Mapping[str, str] = field(default_factory=dict)  # class names that CLIP understands better
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """The split file and the folder of images."""
        return (self.file, self.images)

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the split file exists; it holds all splits."""
        return (folder / self.file).is_file()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split; the classes are those of all splits together."""
        splits = read_json(location.folder / self.file)
        if not isinstance(splits, dict) or not isinstance(splits.get(split), list):
            raise DatasetError(f"{self.file} must be an object with a list under {split!r}; download it again.")
        rows = {name: list(self._rows(entries)) for name, entries in splits.items() if isinstance(entries, list)}
        named = ((label, self.renames.get(name, name)) for entries in rows.values() for _, label, name in entries)
        names = classes_by_label(named, self.file)
        entries: list[Entry] = [(path, label) for path, label, _ in rows[split]]
        return Listing(location.folder / self.images, _with_spaces(names), entries, self.file)

    def _rows(self, entries: list[Any]) -> Iterator[tuple[str, int, str]]:
        for entry in entries:
            match entry:
                case [str(path), int(label), str(name)]:
                    yield path, label, name
                case _:
                    raise DatasetError(f"{self.file}: an entry must be [path, label, class name]; given {entry!r:.80}.")


@dataclass(frozen=True)
class Lists:
    """One text file per split with one image per line, as most publishers do it.

    The pattern `line` has the groups `image`, `name` (of the class) and perhaps `number` (of the class, from one on).
    `path` makes the file name of them. `classes` is a file with the classes in order; without it the classes are
    those of the lists.
    """

    lists: Mapping[str, str]
    line: str
    path: str
    images: str
    classes: str = ""
    classes_line: str = "(?P<name>.+)"
    spelling: Callable[[str], str] = str
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """The list of the test split, the classes, the images."""
        return tuple(filter(None, (self.lists["test"], self.classes, self.images)))

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the split's list exists."""
        return (folder / self.lists[split]).is_file()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split."""
        file = self.lists[split]
        lines = list(_matches(location.folder / file, self.line))
        labels, described_by = self._labels(location.folder), self.classes or "the lists"
        names = classes_by_label(((label, self.spelling(name)) for name, label in labels.items()), described_by)
        entries: list[Entry] = []
        for line in lines:
            spelled = self.spelling(line["name"])
            entries.append((self.path.format(**line, spelled=spelled), label_of(line["name"], labels, file)))
        return Listing(location.folder / self.images, _with_spaces(names), entries, file)

    def _labels(self, folder: Path) -> dict[str, int]:
        """Return the label of each class: its number minus one, else its line in the file, else its rank by name."""
        files = [(folder / self.classes, self.classes_line)] if self.classes else []
        files = files or [(folder / name, self.line) for name in self.lists.values() if (folder / name).is_file()]
        lines = [line for file, pattern in files for line in _matches(file, pattern)]
        if lines and "number" in lines[0]:
            return {line["name"]: int(line["number"]) - 1 for line in lines}
        names = dict.fromkeys(line["name"] for line in lines)
        return {name: label for label, name in enumerate(names if self.classes else sorted(names))}


@dataclass(frozen=True)
class WordnetFolders:
    """One folder per class, named by its WordNet id. Names come from `classnames.txt`; labels follow the ids."""

    images: Mapping[str, str]  # split → folder
    subset: bool = False  # the classes are those with a folder, not all with a name
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """A class folder of the test split."""
        return (f"{self.images['test']}/n[0-9]*",)

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the split's folder exists."""
        return (folder / self.images[split]).is_dir()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split: all images in its class folders."""
        folder = location.folder / self.images[split]
        if not folder.is_dir():
            raise DatasetError(f"the split {split!r} is missing: there is no folder {str(folder)!r}.")
        found = [name for name in subfolders(folder) if re.fullmatch(WORDNET_ID, name)]
        class_names = _class_names(location, folder)
        keys = class_names.keys
        if keys is None:
            keys = tuple(sorted(found)) if len(found) == len(class_names.names) else ()
        names = dict(zip(keys, class_names.names, strict=False))
        unnamed = sorted(set(found) - set(names))
        if unnamed:
            raise DatasetError(
                f"{len(unnamed)} folders have no class name: {quote_some(unnamed)}; add their ids to the class names."
            )
        ids = sorted(found if self.subset else names)
        return _list_class_folders(folder, {key: key for key in ids if key in set(found)}, ids, names)


@dataclass(frozen=True)
class NumberedFolders:
    """One folder per class, named by its label. Names come from `classnames.txt`, in the order of the WordNet ids."""

    images: Mapping[str, str]  # split → folder
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """The first class's folder."""
        return (f"{self.images['test']}/0",)

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the split's folder exists."""
        return (folder / self.images[split]).is_dir()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split: all images in its class folders."""
        folder = location.folder / self.images[split]
        class_names = _class_names(location, folder)
        keys = class_names.keys or tuple(map(str, range(len(class_names.names))))
        names = dict(zip(keys, class_names.names, strict=True))
        ids = sorted(names) if class_names.keys else list(names)
        numbered = [name for name in subfolders(folder) if re.fullmatch("0|[1-9][0-9]*", name)]
        beyond = [name for name in numbered if int(name) >= len(ids)]
        if beyond:
            raise DatasetError(
                f"{str(folder)!r} has the class folders {quote_some(beyond)}; only {len(ids)} classes have names."
            )
        return _list_class_folders(folder, {ids[int(name)]: name for name in numbered}, ids, names)


def lower(name: str) -> str:
    """Spell a class name in lower case."""
    return name.lower()


def camel_words(name: str) -> str:
    """Put an underscore before each capital, as in the folder names of UCF101's middle frames.

    >>> camel_words("YoYo")
    'Yo_Yo'
    """
    return re.sub("(?<=.)(?=[A-Z])", "_", name)


def reversed_path(name: str) -> str:
    """Spell a scene of SUN397 with the narrower word first.

    >>> reversed_path("a/apartment_building/outdoor")
    'outdoor apartment_building'
    """
    return " ".join(reversed(name.split("/")[1:]))


def _with_spaces(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.replace("_", " ") for name in names)


def _matches(file: Path, pattern: str) -> Iterator[dict[str, str]]:
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(pattern, line.strip())
        if match is None:
            raise DatasetError(f"{file.name}, line {number}: {line!r:.80} is not as published. Download it again.")
        yield match.groupdict()


def _class_names(location: DatasetLocation, images: Path) -> ClassNames:
    if location.classes_file is not None:
        return read_class_names(location.classes_file)
    folders = dict.fromkeys(
        (location.folder, images, location.root, location.root / "imagenet", location.folder.parent / "imagenet")
    )
    for folder in folders:
        if (folder / NAMES_FILE).is_file():
            return read_class_names(folder / NAMES_FILE)
    raise DatasetError(
        f"{NAMES_FILE} is missing, with a line such as 'n01440764 tench' for each class: put it into "
        f"{str(location.folder)!r} or give another file of class names (classes_file, --classes)."
    )


def _list_class_folders(folder: Path, found: Mapping[str, str], ids: list[str], names: Mapping[str, str]) -> Listing:
    """List the images in class folders. Ids are added to names that several classes have, as in ImageNet."""
    labels = {key: label for label, key in enumerate(ids)}
    entries: list[Entry] = []
    ignored = 0
    for key, name in found.items():
        inner = images_in(folder / name)
        ignored += inner.ignored
        entries.extend((f"{name}/{path}", labels[key]) for path in inner.paths)
    spelled = disambiguate([names[key] for key in ids], ids)
    notes = (f"files ignored, not images: {ignored:,}.",) if ignored else ()
    return Listing(folder, spelled, sorted(entries), str(folder), notes, exists=True)
