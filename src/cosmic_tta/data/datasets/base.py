"""Data sets as lists of images with labels, wherever the images are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosmic_tta.data.images.decode import Source


@dataclass(frozen=True)
class Item:
    """One image of a data set, not yet read.

    Args:
        key: Name within the data set: a relative path, or the shard and the member.
        label: Number of the class; None if it is not known.
        read: Returns a path, or the bytes of an image in an archive. Any process may call it.

    Examples:
        >>> from cosmic_tta.data import open_source
        >>> item = open_source("mini").items[0]
        >>> item.key, item.label, item.read()[1:4]
        ('0000.png', 3, b'PNG')
    """

    key: str
    label: int | None
    read: Callable[[], Source]


@dataclass(frozen=True)
class Dataset:
    """One split of a data set.

    Args:
        name: Name of the data set.
        split: `train`, `val` or `test`.
        class_names: The classes, in the order of their labels.
        items: The images.
        templates: Sentences with `{}` in place of the class name.
        source: Where the images come from.
        licence: Their licence, as far as it is known.
        notes: Remarks for the user: files passed over, classes without images, a partial copy.

    Examples:
        >>> Dataset("pets", "test", ("cat", "dog"), ()).templates
        ('a photo of a {}.',)
    """

    name: str
    split: str
    class_names: tuple[str, ...]
    items: tuple[Item, ...]
    templates: tuple[str, ...] = ("a photo of a {}.",)
    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)
