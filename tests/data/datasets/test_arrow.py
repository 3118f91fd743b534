from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import open_source
from tests.support.image_sources import (
    check_damaged_bytes,
    image_table,
    jpeg,
    save_to_disk,
    widths,
)
from tests.support.trees import image, write


def test_parquet_of_paths(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        image(tmp_path / name)
    pq.write_table(pa.table({"Path": ["b.jpg", "a.jpg"], "class": ["dog", "cat"]}), tmp_path / "t.parquet")
    data = open_source(tmp_path / "t.parquet")
    assert (data.name, data.class_names) == ("t", ("cat", "dog"))
    assert [(item.key, item.label) for item in data.items] == [("b.jpg", 1), ("a.jpg", 0)]
    assert widths(data) == [4, 4]


def test_parquet_with_images_in_it(tmp_path: Path) -> None:
    table = image_table(10, [2, 0, 0, 1, 2], ignored=pa.array(["x"] * 5))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    data = open_source(tmp_path / "t.parquet")
    assert data.class_names == ("cat", "polar_bear", "owl")
    assert [item.label for item in data.items] == [2, 0, 0, 1, 2]
    assert widths(data) == [10, 11, 12, 13, 14]
    assert len({item.key for item in data.items}) == 5
    assert widths(data)[::-1] == [14, 13, 12, 11, 10]


def test_a_parquet_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    (folder / "data").mkdir(parents=True)
    for number in range(2):
        pq.write_table(image_table(10 * (number + 1), [0, 1]), folder / "data" / f"test-0000{number}-of-00002.parquet")
    pq.write_table(image_table(50, [2]), folder / "data" / "train-00000-of-00001.parquet")
    data = open_source(folder)
    assert (data.name, widths(data)) == ("hub", [10, 11, 20, 21])
    assert data.notes == ("classes without an image here: 1 of 3 ('owl').",)
    assert widths(open_source(folder, split="train")) == [50]
    with pytest.raises(DatasetError, match="no Parquet file of the split 'val'; it has 'test', 'train'"):
        open_source(folder, split="val")
    (folder / "data" / "test-00001-of-00002.parquet").unlink()
    with pytest.raises(DatasetError, match="1 files beside 'test-00000-of-00002.parquet' are missing"):
        open_source(folder)


def test_parquet_without_labels_or_with_none_told(tmp_path: Path) -> None:
    write(tmp_path / "names.txt", "cat", "dog")
    pq.write_table(image_table(10, [-1, -1]), tmp_path / "t.parquet")
    assert [item.label for item in open_source(tmp_path / "t.parquet").items] == [None, None]
    bare = pa.table({"image": pa.array([jpeg(7), jpeg(8)], pa.binary())})
    pq.write_table(bare, tmp_path / "b.parquet")
    data = open_source(tmp_path / "b.parquet", classes_file=tmp_path / "names.txt")
    assert (data.class_names, widths(data)) == (("cat", "dog"), [7, 8])


def test_parquet_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DatasetError, match="is missing or damaged"):
        open_source(file)
    pq.write_table(image_table(10, [0, 5]), file)
    with pytest.raises(DatasetError, match="1 labels are out of range, such as '5'"):
        open_source(file)
    pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(DatasetError, match="has the columns 'x'; one must be called 'path'"):
        open_source(file)
    pq.write_table(image_table(10, []), file)
    with pytest.raises(DatasetError, match="has no row"):
        open_source(file)
    table = pa.table({"image": pa.array([{"bytes": None, "path": "../../x.jpg"}]), "class": ["cat"]})
    pq.write_table(table, tmp_path / "far.parquet")
    (item,) = open_source(tmp_path / "far.parquet").items
    with pytest.raises(DatasetError, match="is not inside"):
        item.read()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DatasetError, match="needs pyarrow, which is not installed. Run: pip install"):
        open_source(file)


def test_a_saved_data_set(tmp_path: Path) -> None:
    tables = [table.replace_schema_metadata(None) for table in (image_table(10, [0, 1, 2]), image_table(20, [2]))]
    save_to_disk(tmp_path / "one", *tables)
    data = open_source(tmp_path / "one")
    assert (data.name, data.class_names) == ("one", ("cat", "polar_bear", "owl"))
    assert [item.label for item in data.items] == [0, 1, 2, 2]
    assert widths(data) == [10, 11, 12, 20]


def test_a_saved_dictionary_of_splits(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "two" / "validation", image_table(30, [1]))
    save_to_disk(tmp_path / "two" / "train", image_table(40, [2]))
    write(tmp_path / "two" / "dataset_dict.json", json.dumps({"splits": ["train", "validation"]}))
    assert widths(open_source(tmp_path / "two", split="val")) == [30]
    with pytest.raises(DatasetError, match="has no split 'test'; it has 'train', 'validation'"):
        open_source(tmp_path / "two")


def test_saved_data_sets_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    save_to_disk(folder, image_table(10, [0]))
    state = json.loads((folder / "state.json").read_text())
    write(folder / "state.json", json.dumps({**state, "_indices_data_files": [{"filename": "indices.arrow"}]}))
    with pytest.raises(DatasetError, match=r"call flatten_indices\(\) and save it again"):
        open_source(folder)
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(DatasetError, match="'../x.arrow' is not inside"):
        open_source(folder)
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "gone.arrow"}]}))
    with pytest.raises(DatasetError, match="is missing or damaged"):
        open_source(folder)
    (folder / "cut.arrow").write_bytes((folder / "data-00000-of-00001.arrow").read_bytes()[:300])
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "cut.arrow"}]}))
    with pytest.raises(DatasetError, match="is missing or damaged"):
        open_source(folder)
    for nothing in ("{}", '{"_data_files": ["x"]}', "[]"):
        write(folder / "state.json", nothing)
        with pytest.raises(DatasetError, match="names no data file"):
            open_source(folder)
    save_to_disk(tmp_path / "odd", image_table(10, [0]), image_table(10, [0]).append_column("more", [[1]]))
    with pytest.raises(DatasetError, match="have different columns; they cannot be one data set"):
        open_source(tmp_path / "odd")
    write(folder / "state.json", "{}")
    with pytest.raises(DatasetError, match="names no data file"):
        open_source(folder)


def test_damaged_parquet_files_are_refused_or_harmless(tmp_path: Path) -> None:
    pq.write_table(image_table(10, [2, 0, 0, 1, 2]), tmp_path / "t.parquet", row_group_size=2)
    check_damaged_bytes(tmp_path / "t.parquet", tmp_path / "t.parquet")


def test_damaged_arrow_files_are_refused_or_harmless(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "one", image_table(10, [0, 1, 2]))
    check_damaged_bytes(tmp_path / "one", tmp_path / "one" / "data-00000-of-00001.arrow")
