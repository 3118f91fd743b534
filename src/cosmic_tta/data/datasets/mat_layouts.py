"""Layouts with labels in MATLAB files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets.build import Entry, Listing, classes_by_label
from cosmic_tta.data.datasets.files import quote_some, read_json
from cosmic_tta.data.datasets.layouts import DatasetLocation, Sizes
from cosmic_tta.data.datasets.mat_reader import read_mat


@dataclass(frozen=True)
class CarsMat:
    """Stanford Cars as published: annotations in MATLAB files, names as "make model type year"."""

    annotations: Mapping[str, tuple[str, str]]  # split: file, folder of images
    classes: str = "devkit/cars_meta.mat"
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """The classes, and annotations and images of the test split."""
        return (self.classes, *self.annotations["test"])

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the split's annotations exist."""
        return (folder / self.annotations[split][0]).is_file()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split. The year is moved to the front of a class name, which CLIP understands better."""
        names = _column(read_mat(location.folder / self.classes), "class_names", self.classes)
        spelled = tuple(re.sub(r"^(.*) ([0-9]{4})$", r"\2 \1", str(name)) for name in names)
        file, folder = self.annotations[split]
        entries: list[Entry] = []
        for row in _column(read_mat(location.folder / file), "annotations", file):
            if not isinstance(row, dict) or not {"fname", "class"} <= set(row):
                raise DatasetError(f"{file}: an annotation lacks 'fname' or 'class'; take the file with the labels.")
            entries.append((f"{folder}/{row['fname']}", int(row["class"]) - 1))
        return Listing(location.folder, spelled, entries, file)


@dataclass(frozen=True)
class FlowersMat:
    """Flowers 102 as published: labels and split in MATLAB files, names in `cat_to_name.json`."""

    fields: Mapping[str, str]  # split: field of `ids`
    images: str = "jpg"
    labels: str = "imagelabels.mat"
    ids: str = "setid.mat"
    names: str = "cat_to_name.json"
    sizes: Sizes | None = None

    @property
    def required_paths(self) -> tuple[str, ...]:
        """All its files."""
        return (self.labels, self.ids, self.names, self.images)

    def has_split(self, folder: Path, split: str) -> bool:
        """Return whether the file of all splits exists."""
        return (folder / self.ids).is_file()

    def list_split(self, location: DatasetLocation, split: str) -> Listing:
        """List a split; images are numbered from one on."""
        numbered = read_json(location.folder / self.names)
        if not isinstance(numbered, dict) or not all(key.isdecimal() for key in numbered):
            raise DatasetError(f"{self.names} must be an object {{number: class name}}, with numbers from one on.")
        names = classes_by_label(((int(key) - 1, str(name)) for key, name in numbered.items()), self.names)
        labels = _column(read_mat(location.folder / self.labels), "labels", self.labels)
        numbers = _column(read_mat(location.folder / self.ids), self.fields[split], self.ids)
        beyond = [number for number in numbers if not 1 <= int(number) <= len(labels)]
        if beyond:
            raise DatasetError(
                f"{self.ids} names the images {quote_some(beyond)}; {self.labels} has {len(labels)} labels."
            )
        entries = [(f"image_{int(number):05d}.jpg", int(labels[int(number) - 1]) - 1) for number in numbers]
        return Listing(location.folder / self.images, names, entries, self.ids)


def _column(fields: Mapping[str, Any], name: str, file: str) -> list[Any]:
    """Return a field of a MATLAB file as a list; scipy reads a list of length one as a scalar."""
    if name not in fields:
        raise DatasetError(f"{file} has no field {name!r}; download it again.")
    value = fields[name]
    return list(value) if hasattr(value, "__len__") and not isinstance(value, (str, dict)) else [value]
