"""WebDataset shards: tar files in which members with the same key belong to one image."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.datasets.build import note_empty_classes
from cosmic_tta.data.datasets.files import SPLIT_OF, natural_order, quote_some, subfolders
from cosmic_tta.data.datasets.labels import RawLabel, resolve_labels
from cosmic_tta.data.datasets.tabular import LABEL_COLUMNS, NAME_COLUMNS
from cosmic_tta.data.images.decode import SUFFIXES, Source

MAX_SHARDS = 100_000
MAX_LABEL_BYTES = 1 << 20
LABEL_SUFFIXES = ("cls", "json", "txt")  # the first that an image has is used


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
            raise DatasetError(f"{self.file!r} has become shorter since it was opened; download it again.")
        return data


def expand(pattern: str) -> list[str]:
    """Expand the braces of a pattern: a range of numbers, or words separated by commas.

    >>> expand("s-{08..10}.tar"), expand("{a,b}.tar")
    (['s-08.tar', 's-09.tar', 's-10.tar'], ['a.tar', 'b.tar'])
    """
    pieces = re.split(r"\{([^{}]*)\}", pattern)
    choices = [_choices(piece, pattern) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ["".join(words) for words in product(*choices)]


def shards_in(folder: Path, split: str) -> list[Path]:
    """Return the shards in a folder, or in its folder of the split, in natural order."""
    split_folders = [folder / name for name in subfolders(folder) if SPLIT_OF.get(name.lower()) == split]
    for parent in (*split_folders, folder):
        found = sorted(parent.glob("*.tar"), key=lambda file: natural_order(file.name))
        splits = [SPLIT_OF.get(re.split(r"[-_.]", file.name.lower(), maxsplit=1)[0]) for file in found]
        chosen = [file for file, own in zip(found, splits, strict=True) if own in (split, None)]
        if found and not chosen:
            others = sorted({own for own in splits if own})
            raise DatasetError(f"{str(parent)!r} has no shard of the split {split!r}; it has {quote_some(others)}.")
        if chosen:
            return chosen
    return []


def load_shards(files: Sequence[Path], given_names: ClassNames | None, *, split: str, name: str) -> Dataset:
    """Load shards in the given order, their images in the order of the members.

    The label of an image is in `<key>.cls`, `<key>.json` (under label, class, cls, ...) or `<key>.txt`. It is a class
    name, or a number if class names are given.
    """
    items: list[tuple[str, ShardReader]] = []
    raw: list[RawLabel] = []
    ignored = 0
    without_end = []
    for file in files:
        images, labels, others, has_end = _index(file)
        ignored += others
        without_end += [] if has_end else [file.name]
        for key, reader in images.items():
            items.append((f"{file.name}/{key}", reader))
            raw.append(labels.get(key))
    if not items:
        raise DatasetError(f"{quote_some(files)}: no image in the shards; members must be named <key>.jpg, <key>.cls.")
    class_names, numbers = resolve_labels(raw, given_names, name)
    labelled = tuple(Item(key, label, reader) for (key, reader), label in zip(items, numbers, strict=True))
    notes = [f"members ignored, neither images nor labels: {ignored:,}."] if ignored else []
    notes += [f"shards without an end mark, perhaps truncated: {quote_some(without_end)}."] if without_end else []
    notes += note_empty_classes(class_names, labelled)
    return Dataset(name, split, class_names, labelled, source=str(files[0].parent), notes=tuple(notes))


def _index(file: Path) -> tuple[dict[str, ShardReader], dict[str, RawLabel], int, bool]:
    """Return a shard's images and labels by key, the number of other members, and whether it has its end mark."""
    images: dict[str, ShardReader] = {}
    label_members: dict[str, dict[str, ShardReader]] = {}
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
            raise DatasetError(f"{str(file)!r} is truncated within {member.name!r}; download it again.")
        elif f".{suffix}" in SUFFIXES:
            if key in images:
                raise DatasetError(f"{str(file)!r} has several images with the key {key!r}; there must be one.")
            images[key] = reader
        elif suffix in LABEL_SUFFIXES and member.size <= MAX_LABEL_BYTES:
            label_members.setdefault(key, {})[suffix] = reader
        else:
            ignored += 1
    labels = {key: _label(file, key, members) for key, members in label_members.items() if key in images}
    return images, labels, ignored, length >= end + tarfile.BLOCKSIZE


def _members(file: Path) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(file, "r:") as shard:
            yield from shard
    except FileNotFoundError as error:
        raise DatasetError(f"the shard {str(file)!r} is missing; add it, or change the pattern.") from error
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        raise DatasetError(
            f"{str(file)!r} is damaged or not a plain tar file ({error}); decompress it to .tar first."
        ) from error


def _label(file: Path, key: str, members: Mapping[str, ShardReader]) -> RawLabel:
    suffix = next(suffix for suffix in LABEL_SUFFIXES if suffix in members)
    data = members[suffix]()
    try:
        text = data.decode("utf-8").strip() if isinstance(data, bytes) else ""
        value = json.loads(text) if suffix == "json" else text
    except ValueError as error:
        raise DatasetError(f"{str(file)!r}: {key}.{suffix} is damaged: {error}.") from error
    if isinstance(value, dict):
        value = next((value[name] for name in (*LABEL_COLUMNS, *NAME_COLUMNS) if name in value), None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, str))):
        raise DatasetError(f"{str(file)!r}: {key}.{suffix} must hold a name or a number; given {value!r:.60}.")
    return value


def _choices(inner: str, pattern: str) -> list[str]:
    span = re.fullmatch(r"([0-9]+)\.\.([0-9]+)", inner)
    if span is None:
        return inner.split(",")
    first, last = int(span[1]), int(span[2])
    if not first <= last < first + MAX_SHARDS:
        raise DatasetError(f"the pattern {pattern!r} must count upwards, with at most {MAX_SHARDS:,} shards.")
    return [f"{number:0{len(span[1])}d}" for number in range(first, last + 1)]
