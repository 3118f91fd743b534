from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import load_dataset
from cosmic_tta.data.datasets.build import check_classes, check_labels, classes_by_label, label_of
from cosmic_tta.data.datasets.registry import load_published
from tests.support import trees
from tests.support.trees import resized


def test_absent_images_are_counted_and_named(tmp_path: Path) -> None:
    expected = trees.dtd(tmp_path)
    for key, _ in expected.splits["test"][:4]:
        (tmp_path / "dtd" / "images" / key).unlink()
    with pytest.raises(DatasetError, match=r"names 6 images, of which 4 are not in .*banded_0005.jpg', .*, \.\.\."):
        load_published(resized("dtd", expected), tmp_path)
    data = load_dataset("dtd", tmp_path, strict=False)
    assert len(data) == 2
    assert any("missing and left out: 4" in note for note in data.notes)
    assert any("classes without an image here: 2 of 3 ('banded', 'blotchy')" in note for note in data.notes)


def test_names_and_labels_are_checked() -> None:
    with pytest.raises(DatasetError, match="the list names no class"):
        check_classes((), "the list")
    with pytest.raises(DatasetError, match="the list: a class name is empty"):
        check_classes(("cat", " "), "the list")
    check_labels([0, 1, None], 2, "the list")
    with pytest.raises(DatasetError, match="the list: 2 labels are out of range, such as '-1', '2'"):
        check_labels([0, 2, -1], 2, "the list")


def test_labels_name_their_classes_without_a_gap() -> None:
    assert classes_by_label([(1, "dog"), (0, "cat"), (1, "dog")], "the list") == ("cat", "dog")
    with pytest.raises(DatasetError, match="calls class 1 'dog' and 'owl'"):
        classes_by_label([(0, "cat"), (1, "dog"), (1, "owl")], "the list")
    with pytest.raises(DatasetError, match="names the class 'cats', which is none of 2 classes: did you mean 'cat'"):
        label_of("cats", {"cat": 0, "dog": 1}, "the list")
