"""Data sets as a list of pictures with labels, wherever the pictures lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosmic_tta.pictures import Source


@dataclass(frozen=True)
class Item:
    """One picture of a data set, not yet read."""

    key: str  # its name within the data set: a relative path, or shard and member
    label: int | None
    read: Callable[[], Source]  # a path, or the bytes of a picture inside an archive; may be called in any process


@dataclass(frozen=True)
class Dataset:
    """One split of a data set: its classes in order, its pictures, and how its classes are put into words."""

    name: str
    split: str
    class_names: tuple[str, ...]
    items: tuple[Item, ...]
    templates: tuple[str, ...] = ("a photo of a {}.",)
    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()  # what a user should know: files passed over, classes without pictures, a partial copy

    def __len__(self) -> int:
        return len(self.items)
