"""How published data sets lie on disk: a few kinds, each a frozen value that can list a split."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cosmic_tta.datasets.assemble import Entry, Listing, classes_by_label, label_of
from cosmic_tta.datasets.files import few, pictures_in, read_json, read_text, subfolders
from cosmic_tta.errors import DatasetError
from cosmic_tta.prompts import TEMPLATES, WORDNET_ID, ClassNames, distinct, read_class_names

Sizes = Mapping[str, int]  # pictures of each split
NAMES_FILE = "classnames.txt"


@dataclass(frozen=True)
class Place:
    """Where a data set lies, and where its class names may be found if they are not its own."""

    folder: Path
    root: Path
    classes_file: Path | None = None


class Layout(Protocol):
    """One way in which a data set may lie on disk."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Patterns of files and folders; the layout is this one if each of them is there."""
        ...

    @property
    def sizes(self) -> Sizes | None:
        """How many pictures each split has, where that is not what the paper counts."""
        ...

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether a split is there at all."""
        ...

    def listing(self, place: Place, split: str) -> Listing:
        """List the pictures of a split."""
        ...


@dataclass(frozen=True)
class Published:
    """One published data set."""

    key: str
    title: str  # as the paper writes it
    folders: tuple[str, ...]  # where it may lie under the root, the CoOp project's first
    layouts: tuple[Layout, ...]  # the first that fits counts
    classes: int
    sizes: Sizes
    task: str
    source: str
    licence: str = ""  # as far as the publishers state one
    aliases: tuple[str, ...] = ()

    @property
    def templates(self) -> tuple[str, ...]:
        """The paper's prompts."""
        return TEMPLATES[self.key]


@dataclass(frozen=True)
class SplitFile:
    """One JSON for all splits, as the CoOp project publishes them: {split: [[path, label, class name], ...]}."""

    file: str
    pictures: str
    renames: Mapping[str, str] = field(default_factory=dict)  # class names that CLIP understands better
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The split file and the folder of pictures."""
        return (self.file, self.pictures)

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the split file is there: it holds all splits."""
        return (folder / self.file).is_file()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split; the classes are those of all splits together."""
        told = read_json(place.folder / self.file)
        if not isinstance(told, dict) or not isinstance(told.get(split), list):
            raise DatasetError(f"{self.file} must be an object with a list under {split!r}; get the file anew.")
        rows = {name: list(self._rows(entries)) for name, entries in told.items() if isinstance(entries, list)}
        named = ((label, self.renames.get(name, name)) for entries in rows.values() for _, label, name in entries)
        names = classes_by_label(named, self.file)
        entries: list[Entry] = [(path, label) for path, label, _ in rows[split]]
        return Listing(place.folder / self.pictures, _blanks(names), entries, self.file)

    def _rows(self, entries: list[Any]) -> Iterator[tuple[str, int, str]]:
        for entry in entries:
            match entry:
                case [str(path), int(label), str(name)]:
                    yield path, label, name
                case _:
                    raise DatasetError(f"{self.file}: an entry must be [path, label, class name]; given {entry!r:.80}.")


@dataclass(frozen=True)
class Lists:
    """A text file a split, one picture a line, as most publishers do it.

    `line` tells the `picture`, the class's `name` and perhaps its `number`, counted from one; `path` makes the file
    name from them. `classes` lists the classes in order; without it the lists themselves tell them.
    """

    lists: Mapping[str, str]
    line: str
    path: str
    pictures: str
    classes: str = ""
    classes_line: str = "(?P<name>.+)"
    spelling: Callable[[str], str] = str
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The list of the test split, the classes, the pictures."""
        return tuple(filter(None, (self.lists["test"], self.classes, self.pictures)))

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the split's list is there."""
        return (folder / self.lists[split]).is_file()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split."""
        file = self.lists[split]
        lines = list(_matches(place.folder / file, self.line))
        labels, told_by = self._labels(place.folder), self.classes or "the lists"
        names = classes_by_label(((label, self.spelling(name)) for name, label in labels.items()), told_by)
        entries: list[Entry] = []
        for line in lines:
            spelled = self.spelling(line["name"])
            entries.append((self.path.format(**line, spelled=spelled), label_of(line["name"], labels, file)))
        return Listing(place.folder / self.pictures, _blanks(names), entries, file)

    def _labels(self, folder: Path) -> dict[str, int]:
        """Return each class's label: its number less one, else its place in the file, else in the alphabet."""
        files = [(folder / self.classes, self.classes_line)] if self.classes else []
        files = files or [(folder / name, self.line) for name in self.lists.values() if (folder / name).is_file()]
        lines = [line for file, form in files for line in _matches(file, form)]
        if lines and "number" in lines[0]:
            return {line["name"]: int(line["number"]) - 1 for line in lines}
        names = dict.fromkeys(line["name"] for line in lines)
        return {name: label for label, name in enumerate(names if self.classes else sorted(names))}


@dataclass(frozen=True)
class WordnetFolders:
    """A folder a class, called by its WordNet id; names from `classnames.txt`, labels in the order of the ids."""

    pictures: Mapping[str, str]  # of each split
    subset: bool = False  # the classes are those with a folder, not all that have a name
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """A class folder of the test split."""
        return (f"{self.pictures['test']}/n[0-9]*",)

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the split's folder is there."""
        return (folder / self.pictures[split]).is_dir()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split: all pictures in its class folders."""
        folder = place.folder / self.pictures[split]
        if not folder.is_dir():
            raise DatasetError(f"the split {split!r} is absent: there is no folder {str(folder)!r}.")
        found = [name for name in subfolders(folder) if re.fullmatch(WORDNET_ID, name)]
        told = _class_names(place, folder)
        keys = told.keys if told.keys is not None else tuple(sorted(found)) if len(found) == len(told.names) else ()
        names = dict(zip(keys, told.names, strict=False))
        strange = sorted(set(found) - set(names))
        if strange:
            raise DatasetError(
                f"the class names know nothing of {len(strange)} folders: {few(strange)}; give their ids."
            )
        ids = sorted(found if self.subset else names)
        return _folders(folder, {key: key for key in ids if key in set(found)}, ids, names)


@dataclass(frozen=True)
class NumberedFolders:
    """A folder a class, called by its label; names from `classnames.txt`, in the order of the WordNet ids."""

    pictures: Mapping[str, str]
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The first class's folder."""
        return (f"{self.pictures['test']}/0",)

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the split's folder is there."""
        return (folder / self.pictures[split]).is_dir()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split: all pictures in its class folders."""
        folder = place.folder / self.pictures[split]
        told = _class_names(place, folder)
        names = dict(zip(told.keys or map(str, range(len(told.names))), told.names, strict=True))
        ids = sorted(names) if told.keys else list(names)
        numbered = [name for name in subfolders(folder) if re.fullmatch("0|[1-9][0-9]*", name)]
        beyond = [name for name in numbered if int(name) >= len(ids)]
        if beyond:
            raise DatasetError(
                f"{str(folder)!r} has the class folders {few(beyond)}; only {len(ids)} classes have names."
            )
        return _folders(folder, {ids[int(name)]: name for name in numbered}, ids, names)


def lower(name: str) -> str:
    """Spell a class name in small letters."""
    return name.lower()


def camel_words(name: str) -> str:
    """Part a name before each capital: the folders of UCF101's middle frames are called so.

    >>> camel_words("YoYo")
    'Yo_Yo'
    """
    return re.sub("(?<=.)(?=[A-Z])", "_", name)


def reversed_path(name: str) -> str:
    """Spell a scene of SUN397, the narrower word first.

    >>> reversed_path("a/apartment_building/outdoor")
    'outdoor apartment_building'
    """
    return " ".join(reversed(name.split("/")[1:]))


def _blanks(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.replace("_", " ") for name in names)


def _matches(file: Path, form: str) -> Iterator[dict[str, str]]:
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(form, line.strip())
        if match is None:
            raise DatasetError(f"{file.name}, line {number}: {line!r:.80} is not as published. Get the file anew.")
        yield match.groupdict()


def _class_names(place: Place, pictures: Path) -> ClassNames:
    if place.classes_file is not None:
        return read_class_names(place.classes_file)
    folders = dict.fromkeys(
        (place.folder, pictures, place.root, place.root / "imagenet", place.folder.parent / "imagenet")
    )
    for folder in folders:
        if (folder / NAMES_FILE).is_file():
            return read_class_names(folder / NAMES_FILE)
    raise DatasetError(
        f"{NAMES_FILE} is absent, with a line such as 'n01440764 tench' for each class: put it into "
        f"{str(place.folder)!r} or name another file of class names (classes_file, --classes)."
    )


def _folders(folder: Path, found: Mapping[str, str], ids: list[str], names: Mapping[str, str]) -> Listing:
    """List class folders; classes of one name, as ImageNet has them, are told apart by their ids."""
    labels = {key: label for label, key in enumerate(ids)}
    entries: list[Entry] = []
    ignored = 0
    for key, name in found.items():
        inner = pictures_in(folder / name)
        ignored += inner.ignored
        entries.extend((f"{name}/{path}", labels[key]) for path in inner.paths)
    spelled = distinct([names[key] for key in ids], ids)
    notes = (f"files passed over, no pictures: {ignored:,}.",) if ignored else ()
    return Listing(folder, spelled, sorted(entries), str(folder), notes, found=True)
