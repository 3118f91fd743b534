"""Layouts whose labels lie in MATLAB files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_tta.datasets.assemble import Entry, Listing, classes_by_label
from cosmic_tta.datasets.files import few, read_json
from cosmic_tta.datasets.layouts import Place, Sizes
from cosmic_tta.datasets.matfile import read_mat
from cosmic_tta.errors import DatasetError


@dataclass(frozen=True)
class CarsMat:
    """Stanford Cars as published: annotations in MATLAB files, names as "make model type year"."""

    annotations: Mapping[str, tuple[str, str]]  # split: file, folder of pictures
    classes: str = "devkit/cars_meta.mat"
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The classes, and annotations and pictures of the test split."""
        return (self.classes, *self.annotations["test"])

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the split's annotations are there."""
        return (folder / self.annotations[split][0]).is_file()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split; the year goes to the front of a class name, where CLIP reads it better."""
        names = _column(read_mat(place.folder / self.classes), "class_names", self.classes)
        spelled = tuple(re.sub(r"^(.*) ([0-9]{4})$", r"\2 \1", str(name)) for name in names)
        file, folder = self.annotations[split]
        entries: list[Entry] = []
        for row in _column(read_mat(place.folder / file), "annotations", file):
            if not isinstance(row, dict) or not {"fname", "class"} <= set(row):
                raise DatasetError(f"{file}: an annotation lacks 'fname' or 'class'; take the file with the labels.")
            entries.append((f"{folder}/{row['fname']}", int(row["class"]) - 1))
        return Listing(place.folder, spelled, entries, file)


@dataclass(frozen=True)
class FlowersMat:
    """Flowers 102 as published: labels and split in MATLAB files, names in `cat_to_name.json`."""

    fields: Mapping[str, str]  # split: field of `ids`
    pictures: str = "jpg"
    labels: str = "imagelabels.mat"
    ids: str = "setid.mat"
    names: str = "cat_to_name.json"
    sizes: Sizes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """All its files."""
        return (self.labels, self.ids, self.names, self.pictures)

    def has(self, folder: Path, split: str) -> bool:
        """Tell whether the file of all splits is there."""
        return (folder / self.ids).is_file()

    def listing(self, place: Place, split: str) -> Listing:
        """List a split; pictures are numbered from one."""
        told = read_json(place.folder / self.names)
        if not isinstance(told, dict) or not all(key.isdecimal() for key in told):
            raise DatasetError(f"{self.names} must be an object {{number: class name}}, numbers from one.")
        names = classes_by_label(((int(key) - 1, str(name)) for key, name in told.items()), self.names)
        labels = _column(read_mat(place.folder / self.labels), "labels", self.labels)
        numbers = _column(read_mat(place.folder / self.ids), self.fields[split], self.ids)
        beyond = [number for number in numbers if not 1 <= int(number) <= len(labels)]
        if beyond:
            raise DatasetError(
                f"{self.ids} speaks of the pictures {few(beyond)}; {self.labels} has {len(labels)} labels."
            )
        entries = [(f"image_{int(number):05d}.jpg", int(labels[int(number) - 1]) - 1) for number in numbers]
        return Listing(place.folder / self.pictures, names, entries, self.ids)


def _column(told: Mapping[str, Any], name: str, file: str) -> list[Any]:
    """Return a field of a MATLAB file as a list; one of length one comes as a scalar."""
    if name not in told:
        raise DatasetError(f"{file} has no field {name!r}; get the file anew.")
    value = told[name]
    return list(value) if hasattr(value, "__len__") and not isinstance(value, (str, dict)) else [value]
