from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.class_names import ClassNames
from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.datasets.labels import resolve_labels
from tests.support.trees import image, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("b.jpg", "sub/a.jpg", "c.jpg"):
        image(tmp_path / "t" / name)
    return tmp_path / "t" / "list.csv"


def test_labels_out_of_range(table: Path, tmp_path: Path) -> None:
    write(table, "path,label", "b.jpg,2", "c.jpg,-1")
    write(tmp_path / "names.txt", "cat", "dog")
    with pytest.raises(DatasetError, match="2 labels are out of range, such as '-1', '2'; there are 2 classes, 0 to 1"):
        open_source(table, classes_file=tmp_path / "names.txt")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_names_numbers_and_keys_resolve_alike(labels: list[int]) -> None:
    given_names = ClassNames(("polar_bear", "cat", "dog", "owl", "newt"), ("k1", "k2", "k3", "k4", "k5"))
    assert given_names.keys is not None
    wanted = (given_names.names, labels)
    assert resolve_labels(labels, given_names, "it") == wanted
    assert resolve_labels([given_names.names[label].upper() for label in labels], given_names, "it") == wanted
    assert resolve_labels([given_names.keys[label] for label in labels], given_names, "it") == wanted
