"""WebDataset shards: tar files whose members of one key belong together; an item reads its own bytes only."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from cosmic_tta.datasets.assemble import empty_classes
from cosmic_tta.datasets.base import Dataset, Item
from cosmic_tta.datasets.files import SPLIT_OF, few, natural, subfolders
from cosmic_tta.datasets.labels import Raw, settle
from cosmic_tta.datasets.tables import LABELS, NAMES
from cosmic_tta.errors import DatasetError
from cosmic_tta.pictures import SUFFIXES, Source
from cosmic_tta.prompts import ClassNames

MOST_SHARDS = 100_000
MOST_LABEL_BYTES = 1 << 20
TELLING = ("cls", "json", "txt")  # members that tell a label, the first that is there counts


@dataclass(frozen=True, slots=True)
class ShardReader:
    """Reads one member of a shard, from its offset."""

    file: str
    offset: int
    size: int

    def __call__(self) -> Source:
        """Return the member's bytes."""
        with open(self.file, "rb") as shard:
            shard.seek(self.offset)
            data = shard.read(self.size)
        if len(data) < self.size:
            raise DatasetError(f"{self.file!r} has become shorter since it was opened; get it anew.")
        return data


def expand(pattern: str) -> list[str]:
    """Expand the braces of a pattern: a range of numbers, or words parted by commas.

    >>> expand("s-{08..10}.tar"), expand("{a,b}.tar")
    (['s-08.tar', 's-09.tar', 's-10.tar'], ['a.tar', 'b.tar'])
    """
    pieces = re.split(r"\{([^{}]*)\}", pattern)
    choices = [_choices(piece, pattern) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    return ["".join(words) for words in product(*choices)]


def shards_in(folder: Path, split: str) -> list[Path]:
    """Return the shards in a folder, or in the folder of the split below it, in natural order."""
    inner = [folder / name for name in subfolders(folder) if SPLIT_OF.get(name.lower()) == split]
    for place in (*inner, folder):
        found = sorted(place.glob("*.tar"), key=lambda file: natural(file.name))
        told = [SPLIT_OF.get(re.split(r"[-_.]", file.name.lower(), maxsplit=1)[0]) for file in found]
        chosen = [file for file, word in zip(found, told, strict=True) if word in (split, None)]
        if found and not chosen:
            there = sorted({word for word in told if word})
            raise DatasetError(f"{str(place)!r} has no shard of the split {split!r}; it has {few(there)}.")
        if chosen:
            return chosen
    return []


def shards(files: Sequence[Path], told: ClassNames | None, *, split: str, name: str) -> Dataset:
    """Load shards in the order given, their pictures in the order of the members.

    A picture's label is what `<key>.cls`, `<key>.json` (under label, class, cls, ...) or `<key>.txt` says of it: a
    name, or a number if a file tells the class names.
    """
    items: list[tuple[str, ShardReader]] = []
    raw: list[Raw] = []
    ignored = 0
    open_ended = []
    for file in files:
        pictures, labels, others, ends = _index(file)
        ignored += others
        open_ended += [] if ends else [file.name]
        for key, reader in pictures.items():
            items.append((f"{file.name}/{key}", reader))
            raw.append(labels.get(key))
    if not items:
        raise DatasetError(f"{few(files)}: no picture in the shards; members must be called <key>.jpg, <key>.cls.")
    class_names, numbers = settle(raw, told, name)
    made = tuple(Item(key, label, reader) for (key, reader), label in zip(items, numbers, strict=True))
    notes = [f"members passed over, neither pictures nor labels: {ignored:,}."] if ignored else []
    notes += [f"shards without an end mark, perhaps cut off: {few(open_ended)}."] if open_ended else []
    notes += empty_classes(class_names, made)
    return Dataset(name, split, class_names, made, source=str(files[0].parent), notes=tuple(notes))


def _index(file: Path) -> tuple[dict[str, ShardReader], dict[str, Raw], int, bool]:
    """Return a shard's pictures and labels by key, how many members are neither, and whether it has its end mark."""
    pictures: dict[str, ShardReader] = {}
    tellers: dict[str, dict[str, ShardReader]] = {}
    ignored = end = 0
    length = file.stat().st_size if file.is_file() else 0
    for member in _members(file):
        folder, _, base = member.name.rpartition("/")
        stem, _, suffix = base.partition(".")
        key, suffix = f"{folder}/{stem}".lstrip("./"), suffix.lower()
        reader = ShardReader(str(file.absolute()), member.offset_data, member.size)
        end = reader.offset + -(-reader.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not stem:
            ignored += not member.isdir()
        elif not 0 <= reader.size <= length - reader.offset:
            raise DatasetError(f"{str(file)!r} is cut off within {member.name!r}; get it anew.")
        elif f".{suffix}" in SUFFIXES:
            if key in pictures:
                raise DatasetError(f"{str(file)!r} has several pictures of the key {key!r}; there must be one.")
            pictures[key] = reader
        elif suffix in TELLING and member.size <= MOST_LABEL_BYTES:
            tellers.setdefault(key, {})[suffix] = reader
        else:
            ignored += 1
    labels = {key: _label(file, key, told) for key, told in tellers.items() if key in pictures}
    return pictures, labels, ignored, length >= end + tarfile.BLOCKSIZE


def _members(file: Path) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(file, "r:") as shard:
            yield from shard
    except FileNotFoundError as error:
        raise DatasetError(f"the shard {str(file)!r} is absent; get it, or change the pattern.") from error
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        told = f"{str(file)!r} is damaged or no plain tar file ({error})"
        raise DatasetError(f"{told}; a compressed one must be unpacked to .tar first.") from error


def _label(file: Path, key: str, told: Mapping[str, ShardReader]) -> Raw:
    suffix = next(word for word in TELLING if word in told)
    data = told[suffix]()
    try:
        text = data.decode("utf-8").strip() if isinstance(data, bytes) else ""
        value = json.loads(text) if suffix == "json" else text
    except ValueError as error:
        raise DatasetError(f"{str(file)!r}: {key}.{suffix} is damaged: {error}.") from error
    if isinstance(value, dict):
        value = next((value[name] for name in (*LABELS, *NAMES) if name in value), None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, str))):
        raise DatasetError(f"{str(file)!r}: {key}.{suffix} must tell a name or a number; it says {value!r:.60}.")
    return value


def _choices(inner: str, pattern: str) -> list[str]:
    span = re.fullmatch(r"([0-9]+)\.\.([0-9]+)", inner)
    if span is None:
        return inner.split(",")
    first, last = int(span[1]), int(span[2])
    if not first <= last < first + MOST_SHARDS:
        raise DatasetError(f"the pattern {pattern!r} must count upwards, at most {MOST_SHARDS:,} shards.")
    return [f"{number:0{len(span[1])}d}" for number in range(first, last + 1)]
