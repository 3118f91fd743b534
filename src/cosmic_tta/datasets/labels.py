"""Labels as sources write them, names or numbers, to the places of their classes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cosmic_tta.datasets.assemble import check_classes, check_labels, label_of
from cosmic_tta.datasets.files import few, natural
from cosmic_tta.errors import DatasetError
from cosmic_tta.prompts import ClassNames, distinct, spoken

Raw = int | str | None
Settled = tuple[tuple[str, ...], list[int | None]]  # class names, a label a picture
GIVE_NAMES = "name the classes in a file, one a line (classes_file, --classes)"


def settle(
    raw: Sequence[Raw], told: ClassNames | None, told_by: str, *, blanks: bool = True, numerals: bool = False
) -> Settled:
    """Settle the classes of a source and the label of each picture.

    Labels may be names, keys of the file of class names, or numbers counted from zero. Without a file of class names
    the classes are the names that occur, in natural order.

    Args:
        raw: what the source says of each picture.
        told: class names from a file, in the order of their labels.
        told_by: the source, for messages.
        blanks: turn underscores of names that occur into blanks.
        numerals: a number may be a class name of its own, as with folders.
    """
    if told is not None:
        told = replace(told, names=distinct(told.names, told.keys))
        check_classes(told.names, told_by)
    bare = sum(label is None or label == "" for label in raw)
    if bare == len(raw):
        if told is None:
            raise DatasetError(f"{told_by} has no labels, so it does not tell the classes: {GIVE_NAMES}.")
        return told.names, [None] * len(raw)
    if bare:
        raise DatasetError(f"{told_by}: {bare:,} of {len(raw):,} pictures have no label; label all of them or none.")
    words = [str(label).strip() for label in raw]
    numbered = all(re.fullmatch("[+-]?[0-9]+", word) for word in words)
    if told is None:
        if numbered and not numerals:
            raise DatasetError(f"{told_by} labels its pictures with numbers: {GIVE_NAMES}.")
        return _occurring(words, told_by, blanks)
    places = _places(told)
    if numbered and not all(_fold(word) in places for word in set(words)):
        numbers: list[int | None] = [int(word) for word in words]
        check_labels(numbers, len(told.names), told_by)
        return told.names, numbers
    found = {word: label_of(_fold(word), places, told_by) for word in dict.fromkeys(words)}
    return told.names, [found[word] for word in words]


def _occurring(words: Sequence[str], told_by: str, blanks: bool) -> Settled:
    names = sorted(set(words), key=natural)
    same = defaultdict(list)
    for name in names:
        same[_fold(name)].append(name)
    twins = next((group for group in same.values() if len(group) > 1), None)
    if twins:
        raise DatasetError(f"{told_by}: {few(twins)} are one class name in several spellings. Rename or merge them.")
    labels = {name: label for label, name in enumerate(names)}
    spelled = tuple(spoken(name) if blanks else name for name in names)
    check_classes(spelled, told_by)
    return spelled, [labels[word] for word in words]


def _places(told: ClassNames) -> dict[str, int]:
    places = {_fold(name): label for label, name in enumerate(told.names)}
    return places | {_fold(key): label for label, key in enumerate(told.keys or ())}


def _fold(name: str) -> str:
    return spoken(name).casefold()
