"""Few-shot support sets: a few labelled images per class, the same on every machine."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.datasets.files import quote_some


def few_shot(dataset: Dataset, shots: int, seed: int = 0) -> Dataset:
    """Sample a number of images of each class, without replacement.

    A hash of the seed, the class and the image's key decides which images are taken. So the sample depends on no
    random generator, no order of files and no other class. The first four of eight shots are the four shots of the
    same seed.

    Args:
        dataset: A data set with labels.
        shots: Images per class. A class with fewer images gives all of them, which is noted.
        seed: Another seed gives another sample.

    Returns:
        The data set with these items alone, in their order.

    Raises:
        DatasetError: `shots` is not a positive integer, or an image has no label.

    Examples:
        >>> from cosmic_tta.data import open_source
        >>> len(few_shot(open_source("mini"), 4))
        40
    """
    if isinstance(shots, bool) or not isinstance(shots, int) or shots < 1:
        raise DatasetError(f"shots must be a whole number, at least 1; given {shots!r}.")
    ranked: dict[int, list[tuple[bytes, int]]] = {label: [] for label in range(len(dataset.class_names))}
    for position, item in enumerate(dataset.items):
        if item.label is None:
            raise DatasetError(f"{dataset.name} has no labels; few-shot support needs them for every image.")
        text = f"{seed}\n{dataset.class_names[item.label]}\n{item.key}"
        ranked[item.label].append((sha256(text.encode("utf-8", "surrogatepass")).digest(), position))
    sampled = sorted(position for images in ranked.values() for _, position in sorted(images)[:shots])
    short = [dataset.class_names[label] for label, images in ranked.items() if len(images) < shots]
    note = f"classes with fewer than {shots} images: {len(short)} of {len(ranked)} ({quote_some(short)})."
    notes = (*dataset.notes, note) if short else dataset.notes
    return replace(dataset, items=tuple(dataset.items[position] for position in sampled), notes=notes)
