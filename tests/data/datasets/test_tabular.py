from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import open_source
from tests.support.image_sources import (
    check_damaged_bytes,
    keys_and_labels,
)
from tests.support.trees import image, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("b.jpg", "sub/a.jpg", "c.jpg"):
        image(tmp_path / "t" / name)
    return tmp_path / "t" / "list.csv"


def test_a_table_of_paths_and_names(table: Path) -> None:
    write(table, "\ufeffPath,Label", "sub/a.jpg,polar_bear", 'b.jpg,"cat, black"', "c.jpg,polar_bear")
    data = open_source(table)
    assert data.class_names == ("cat, black", "polar bear")
    assert keys_and_labels(data) == [("sub/a.jpg", 1), ("b.jpg", 0), ("c.jpg", 1)]
    write(table, "file;class", "c.jpg;x", "b.jpg;y")
    assert keys_and_labels(open_source(table)) == [("c.jpg", 0), ("b.jpg", 1)]
    write(table.with_suffix(".tsv"), "image\tlabel", f"{table.parent}/sub/a.jpg\tx")
    assert keys_and_labels(open_source(table.with_suffix(".tsv"))) == [("sub/a.jpg", 0)]
    write(table.parent.parent / "far.csv", "path,label", "b.jpg,x")
    assert keys_and_labels(open_source(table.parent.parent / "far.csv", root=table.parent)) == [("b.jpg", 0)]


def test_a_table_of_numbers(table: Path, tmp_path: Path) -> None:
    write(table, "path,label", "b.jpg,1", "c.jpg,0")
    with pytest.raises(DatasetError, match="labels its images with numbers: give a file of class names"):
        open_source(table)
    write(tmp_path / "names.txt", "cat", "dog", "owl")
    data = open_source(table, classes_file=tmp_path / "names.txt")
    assert data.class_names == ("cat", "dog", "owl")
    assert keys_and_labels(data) == [("b.jpg", 1), ("c.jpg", 0)]
    assert data.notes == ("classes without an image here: 1 of 3 ('owl').",)
    write(table, "path,label,class_name,split", "b.jpg,1,dog,test", "c.jpg,0,cat,train")
    data = open_source(table)
    assert data.class_names == ("cat", "dog")
    assert keys_and_labels(data) == [("b.jpg", 1)]
    assert keys_and_labels(open_source(table, split="train")) == [("c.jpg", 0)]
    with pytest.raises(DatasetError, match="has no row of the split 'val'; it has 'test', 'train'"):
        open_source(table, split="val")
    write(table, "path", "b.jpg")
    assert keys_and_labels(open_source(table, classes_file=tmp_path / "names.txt")) == [("b.jpg", None)]


def test_only_the_labels_of_a_split_must_be_numbers(table: Path) -> None:
    write(table, "path,label,class_name,split", "b.jpg,0,cat,test", "c.jpg,1,dog,test", "sub/a.jpg,,dog,train")
    data = open_source(table)
    assert data.class_names == ("cat", "dog")
    assert [item.label for item in data.items] == [0, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["path,label"], "has no row below its header"),
        (["where,label", "b.jpg,x"], "has the columns 'where', 'label'; one must be called 'path'"),
        (["path,label", "b.jpg"], "row 2: has 1 fields, the header 2"),
        (["path,label", '"b.jpg,x'], "is damaged: unexpected end of data"),
        (["path,label", "b.jpg,x", "c.jpg,"], "1 of 2 images have no label"),
        (["path,label", "../b.jpg,x"], "'../b.jpg' is not inside"),
        (["path,label", "/etc/b.jpg,x"], "'/etc/b.jpg' is not inside"),
        (["path,label", "C:\\b.jpg,x"], "is not inside"),
        (["path,label", "nope.jpg,x", "b.jpg,x"], "names 2 images, of which 1 are not in"),
        (["path,label,class_name", "b.jpg,0,cat", "c.jpg,0,dog"], "calls class 0 'cat' and 'dog'"),
    ],
)
def test_tables_that_cannot_be_loaded(lines: list[str], message: str, table: Path) -> None:
    write(table, *lines)
    with pytest.raises(DatasetError, match=message.replace("\\", r"\\")):
        open_source(table)


def test_damaged_tables_are_refused_or_harmless(tmp_path: Path) -> None:
    image(tmp_path / "a.jpg")
    write(tmp_path / "t.csv", "path,label", "a.jpg,cat", "a.jpg,dog")
    check_damaged_bytes(tmp_path / "t.csv", tmp_path / "t.csv")
