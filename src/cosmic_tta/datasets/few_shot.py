"""Few-shot support: a few labelled pictures a class, the same on every machine."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from cosmic_tta.datasets.base import Dataset
from cosmic_tta.datasets.files import few
from cosmic_tta.errors import DatasetError


def few_shot(dataset: Dataset, shots: int, seed: int = 0) -> Dataset:
    """Sample `shots` pictures of each class without replacement; all of them where a class has fewer, which is noted.

    A picture is drawn by a hash of the seed, its class and its key. So the draw depends on no generator, no order of
    files and no other class, and four shots are among the eight shots of the same seed. The items keep their order.
    """
    if isinstance(shots, bool) or not isinstance(shots, int) or shots < 1:
        raise DatasetError(f"shots must be a whole number, at least 1; given {shots!r}.")
    ranked: dict[int, list[tuple[bytes, int]]] = {label: [] for label in range(len(dataset.class_names))}
    for place, item in enumerate(dataset.items):
        if item.label is None:
            raise DatasetError(f"{dataset.name} has no labels; few-shot support needs them for every picture.")
        told = f"{seed}\n{dataset.class_names[item.label]}\n{item.key}"
        ranked[item.label].append((sha256(told.encode("utf-8", "surrogatepass")).digest(), place))
    drawn = sorted(place for draws in ranked.values() for _, place in sorted(draws)[:shots])
    short = [dataset.class_names[label] for label, draws in ranked.items() if len(draws) < shots]
    note = f"classes with fewer than {shots} pictures: {len(short)} of {len(ranked)} ({few(short)})."
    notes = (*dataset.notes, note) if short else dataset.notes
    return replace(dataset, items=tuple(dataset.items[place] for place in drawn), notes=notes)
