from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError, InputError
from cosmic_tta.data.datasets import open_source
from tests.support.image_sources import (
    keys_and_labels,
)
from tests.support.trees import image, write


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    for name in ("class10/b.PNG", "class10/a.jpg", "class9/deep/er/x.webp", "polar_bear/z.jpeg", "polar_bear/Z.jpeg"):
        image(folder / name)
    for name in ("polar_bear/Thumbs.db", "polar_bear/.hidden.jpg", ".git/x.jpg", "notes.txt", "loose.jpg"):
        image(folder / name)
    return folder


def test_a_folder_a_class(zoo: Path) -> None:
    data = open_source(zoo)
    assert (data.name, data.split) == ("zoo", "test")
    assert data.class_names == ("class9", "class10", "polar bear")
    assert keys_and_labels(data) == [
        ("class10/a.jpg", 1),
        ("class10/b.PNG", 1),
        ("class9/deep/er/x.webp", 0),
        ("polar_bear/Z.jpeg", 2),
        ("polar_bear/z.jpeg", 2),
    ]
    assert data.notes == ("files ignored, not images: 3.", "images ignored, not in a class folder: 1.")
    assert open_source(zoo, replace_underscores=False).class_names == ("class9", "class10", "polar_bear")


def test_a_file_of_class_names_tells_the_order(zoo: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Polar Bear\nclass9\n\nclass10\n")
    data = open_source(zoo, classes_file=names)
    assert data.class_names == ("Polar Bear", "class9", "class10")
    assert [label for _, label in keys_and_labels(data)] == [2, 2, 1, 0, 0]
    names.write_text('{"class9": "nine", "class10": "ten", "polar_bear": "white bear", "owl": "owl"}')
    keyed = names.rename(tmp_path / "names.json")
    with pytest.raises(DatasetError, match="has 1 classes without a folder: 'owl'"):
        open_source(zoo, classes_file=keyed)
    data = open_source(zoo, classes_file=keyed, strict=False)
    assert data.class_names == ("nine", "ten", "white bear", "owl")
    assert "classes without an image here: 1 of 4 ('owl')." in data.notes
    names.write_text("polar bears\nclass9\nclass10\n")
    with pytest.raises(DatasetError, match="names the class 'polar bear', .* did you mean 'polar bears'"):
        open_source(zoo, classes_file=names)
    names.write_text("a\na\nb\n")
    with pytest.raises(DatasetError, match="class names must differ; given more than once: 'a'"):
        open_source(zoo, classes_file=names)
    with pytest.raises(InputError, match="class names cannot be read from"):
        open_source(zoo, classes_file=tmp_path / "nowhere.txt")


def test_numbered_class_folders(tmp_path: Path) -> None:
    for number in range(11):
        image(tmp_path / "n" / str(number) / "x.jpg", number)
    assert open_source(tmp_path / "n").class_names == tuple(map(str, range(11)))
    write(tmp_path / "n" / "classnames.txt", *(f"class {chr(97 + number)}" for number in range(11)))
    data = open_source(tmp_path / "n")
    assert data.class_names[10] == "class k"
    assert dict(keys_and_labels(data))["10/x.jpg"] == 10


def test_wordnet_folders_anywhere(tmp_path: Path) -> None:
    for key in ("n03773504", "n04008634"):
        image(tmp_path / "w" / key / "x.jpg")
    assert open_source(tmp_path / "w").class_names == ("n03773504", "n04008634")
    write(tmp_path / "w" / "classnames.txt", "n04008634 missile", "n03773504 missile")
    data = open_source(tmp_path / "w")
    assert data.class_names == ("missile (n04008634)", "missile (n03773504)")
    assert [label for _, label in keys_and_labels(data)] == [1, 0]


def test_images_without_labels(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.jpg", "B.jpg"):
        image(tmp_path / "flat" / name)
    with pytest.raises(DatasetError, match="has no labels, so its classes are unknown: give a file of class names"):
        open_source(tmp_path / "flat")
    write(tmp_path / "names.txt", "cat", "dog")
    data = open_source(tmp_path / "flat", classes_file=tmp_path / "names.txt")
    assert data.class_names == ("cat", "dog")
    assert keys_and_labels(data) == [("B.jpg", None), ("a.jpg", None), ("b.jpg", None)]
    assert data.notes == ()
