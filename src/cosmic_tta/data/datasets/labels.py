"""Labels as sources write them, names or numbers, resolved to numbers of classes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames, as_words, disambiguate
from cosmic_tta.data.datasets.build import check_classes, check_labels, label_of
from cosmic_tta.data.datasets.files import natural_order, quote_some

RawLabel = int | str | None
ResolvedLabels = tuple[tuple[str, ...], list[int | None]]  # class names, a label per image
GIVE_NAMES = "give a file of class names, one per line (classes_file, --classes)"


def resolve_labels(
    raw: Sequence[RawLabel],
    given_names: ClassNames | None,
    described_by: str,
    *,
    replace_underscores: bool = True,
    numeric_names: bool = False,
) -> ResolvedLabels:
    """Find the classes of a source and the label of each image.

    A label may be a class name, a key of the file of class names, or a number from zero on. Without such a file the
    classes are the names that occur, in natural order.

    Args:
        raw: The label of each image as the source writes it.
        given_names: Class names from a file, in the order of their labels.
        described_by: The source, for messages.
        replace_underscores: Replace underscores by spaces in names that occur.
        numeric_names: A number may be a class name of its own, as with folders.
    """
    if given_names is not None:
        given_names = replace(given_names, names=disambiguate(given_names.names, given_names.keys))
        check_classes(given_names.names, described_by)
    unlabelled = sum(label is None or label == "" for label in raw)
    if unlabelled == len(raw):
        if given_names is None:
            raise DatasetError(f"{described_by} has no labels, so its classes are unknown: {GIVE_NAMES}.")
        return given_names.names, [None] * len(raw)
    if unlabelled:
        raise DatasetError(
            f"{described_by}: {unlabelled:,} of {len(raw):,} images have no label; label all of them or none."
        )
    words = [str(label).strip() for label in raw]
    numeric = all(re.fullmatch("[+-]?[0-9]+", word) for word in words)
    if given_names is None:
        if numeric and not numeric_names:
            raise DatasetError(f"{described_by} labels its images with numbers: {GIVE_NAMES}.")
        return _names_that_occur(words, described_by, replace_underscores)
    labels = _labels_by_name(given_names)
    if numeric and not all(_fold(word) in labels for word in set(words)):
        numbers: list[int | None] = [int(word) for word in words]
        check_labels(numbers, len(given_names.names), described_by)
        return given_names.names, numbers
    found = {word: label_of(_fold(word), labels, described_by) for word in dict.fromkeys(words)}
    return given_names.names, [found[word] for word in words]


def _names_that_occur(words: Sequence[str], described_by: str, replace_underscores: bool) -> ResolvedLabels:
    names = sorted(set(words), key=natural_order)
    spellings = defaultdict(list)
    for name in names:
        spellings[_fold(name)].append(name)
    same = next((group for group in spellings.values() if len(group) > 1), None)
    if same:
        raise DatasetError(
            f"{described_by}: {quote_some(same)} are one class name in several spellings. Rename or merge them."
        )
    labels = {name: label for label, name in enumerate(names)}
    class_names = tuple(as_words(name) if replace_underscores else name for name in names)
    check_classes(class_names, described_by)
    return class_names, [labels[word] for word in words]


def _labels_by_name(given_names: ClassNames) -> dict[str, int]:
    labels = {_fold(name): label for label, name in enumerate(given_names.names)}
    return labels | {_fold(key): label for label, key in enumerate(given_names.keys or ())}


def _fold(name: str) -> str:
    return as_words(name).casefold()
