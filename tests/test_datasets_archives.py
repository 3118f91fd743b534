from __future__ import annotations

import io
import json
import pickle
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from trees import features, picture, write

from cosmic_tta.datasets import Dataset, open_source
from cosmic_tta.datasets.shards import expand
from cosmic_tta.errors import DatasetError
from cosmic_tta.pictures import open_picture

CLASS_LABEL = {"names": ["cat", "polar_bear", "owl"], "_type": "ClassLabel"}
IMAGE = {"_type": "Image"}


def jpeg(width: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, 3)).save(stream, format="JPEG")
    return stream.getvalue()


def widths(data: Dataset) -> list[int]:
    """Return each picture's width, which tells which picture it is."""
    return [open_picture(pickle.loads(pickle.dumps(item)).read()).width for item in data.items]


def embedded(start: int, labels: list[int], **more: Any) -> pa.Table:
    images = [{"bytes": jpeg(start + place), "path": None} for place in range(len(labels))]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "label": pa.array(labels, pa.int64()), **more})
    return table.replace_schema_metadata(features(image=IMAGE, label=CLASS_LABEL))


# Parquet


def test_parquet_of_paths(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        picture(tmp_path / name)
    pq.write_table(pa.table({"Path": ["b.jpg", "a.jpg"], "class": ["dog", "cat"]}), tmp_path / "t.parquet")
    data = open_source(tmp_path / "t.parquet")
    assert (data.name, data.class_names) == ("t", ("cat", "dog"))
    assert [(item.key, item.label) for item in data.items] == [("b.jpg", 1), ("a.jpg", 0)]
    assert widths(data) == [4, 4]


def test_parquet_with_pictures_in_it(tmp_path: Path) -> None:
    table = embedded(10, [2, 0, 0, 1, 2], ignored=pa.array(["x"] * 5))
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
        pq.write_table(embedded(10 * (number + 1), [0, 1]), folder / "data" / f"test-0000{number}-of-00002.parquet")
    pq.write_table(embedded(50, [2]), folder / "data" / "train-00000-of-00001.parquet")
    data = open_source(folder)
    assert (data.name, widths(data)) == ("hub", [10, 11, 20, 21])
    assert data.notes == ("classes without a picture here: 1 of 3 ('owl').",)
    assert widths(open_source(folder, split="train")) == [50]
    with pytest.raises(DatasetError, match="no Parquet file of the split 'val'; it has 'test', 'train'"):
        open_source(folder, split="val")
    (folder / "data" / "test-00001-of-00002.parquet").unlink()
    with pytest.raises(DatasetError, match="1 files beside 'test-00000-of-00002.parquet' are absent"):
        open_source(folder)


def test_parquet_without_labels_or_with_none_told(tmp_path: Path) -> None:
    write(tmp_path / "names.txt", "cat", "dog")
    pq.write_table(embedded(10, [-1, -1]), tmp_path / "t.parquet")
    assert [item.label for item in open_source(tmp_path / "t.parquet").items] == [None, None]
    bare = pa.table({"image": pa.array([jpeg(7), jpeg(8)], pa.binary())})
    pq.write_table(bare, tmp_path / "b.parquet")
    data = open_source(tmp_path / "b.parquet", classes_file=tmp_path / "names.txt")
    assert (data.class_names, widths(data)) == (("cat", "dog"), [7, 8])


def test_parquet_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DatasetError, match="is absent or damaged"):
        open_source(file)
    pq.write_table(embedded(10, [0, 5]), file)
    with pytest.raises(DatasetError, match="1 labels are out of range, such as '5'"):
        open_source(file)
    pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(DatasetError, match="has the columns 'x'; one must be called 'path'"):
        open_source(file)
    pq.write_table(embedded(10, []), file)
    with pytest.raises(DatasetError, match="has no row"):
        open_source(file)
    table = pa.table({"image": pa.array([{"bytes": None, "path": "../../x.jpg"}]), "class": ["cat"]})
    pq.write_table(table, tmp_path / "far.parquet")
    (item,) = open_source(tmp_path / "far.parquet").items
    with pytest.raises(DatasetError, match="does not lie in"):
        item.read()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DatasetError, match="is read with pyarrow, which is absent: pip install"):
        open_source(file)


# Hugging Face's save_to_disk


def save(folder: Path, *tables: pa.Table) -> None:
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{len(tables):05d}.arrow" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_indices_data_files": None, "_split": "test"}
    write(folder / "state.json", json.dumps(state))
    write(folder / "dataset_info.json", json.dumps({"features": {"image": IMAGE, "label": CLASS_LABEL}}))


def test_a_saved_data_set(tmp_path: Path) -> None:
    tables = [table.replace_schema_metadata(None) for table in (embedded(10, [0, 1, 2]), embedded(20, [2]))]
    save(tmp_path / "one", *tables)
    data = open_source(tmp_path / "one")
    assert (data.name, data.class_names) == ("one", ("cat", "polar_bear", "owl"))
    assert [item.label for item in data.items] == [0, 1, 2, 2]
    assert widths(data) == [10, 11, 12, 20]


def test_a_saved_dictionary_of_splits(tmp_path: Path) -> None:
    save(tmp_path / "two" / "validation", embedded(30, [1]))
    save(tmp_path / "two" / "train", embedded(40, [2]))
    write(tmp_path / "two" / "dataset_dict.json", json.dumps({"splits": ["train", "validation"]}))
    assert widths(open_source(tmp_path / "two", split="val")) == [30]
    with pytest.raises(DatasetError, match="has no split 'test'; it has 'train', 'validation'"):
        open_source(tmp_path / "two")


def test_saved_data_sets_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    save(folder, embedded(10, [0]))
    state = json.loads((folder / "state.json").read_text())
    write(folder / "state.json", json.dumps({**state, "_indices_data_files": [{"filename": "indices.arrow"}]}))
    with pytest.raises(DatasetError, match=r"call flatten_indices\(\) and save it anew"):
        open_source(folder)
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(DatasetError, match="'../x.arrow' does not lie in"):
        open_source(folder)
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "gone.arrow"}]}))
    with pytest.raises(DatasetError, match="is absent or damaged"):
        open_source(folder)
    (folder / "cut.arrow").write_bytes((folder / "data-00000-of-00001.arrow").read_bytes()[:300])
    write(folder / "state.json", json.dumps({**state, "_data_files": [{"filename": "cut.arrow"}]}))
    with pytest.raises(DatasetError, match="is absent or damaged"):
        open_source(folder)
    for nothing in ("{}", '{"_data_files": ["x"]}', "[]"):
        write(folder / "state.json", nothing)
        with pytest.raises(DatasetError, match="names no data file"):
            open_source(folder)
    save(tmp_path / "odd", embedded(10, [0]), embedded(10, [0]).append_column("more", [[1]]))
    with pytest.raises(DatasetError, match="have different columns; they cannot be one data set"):
        open_source(tmp_path / "odd")
    write(folder / "state.json", "{}")
    with pytest.raises(DatasetError, match="names no data file"):
        open_source(folder)


# WebDataset shards


def shard(file: Path, members: dict[str, bytes], form: str = "w") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, form) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def test_shards_in_a_folder(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        members = {"a.b/s1.jpg": jpeg(20 + number), "a.b/s1.cls": b"1\n", "s2.PNG": jpeg(40 + number), "s2.cls": b"0"}
        shard(tmp_path / "wds" / "test" / f"{number}.tar", members | {"s2.seg.npy": b"x", "._s2.jpg": b"x"})
    write(tmp_path / "wds" / "classnames.txt", "cat", "dog")
    data = open_source(tmp_path / "wds")
    assert (data.name, data.class_names) == ("wds", ("cat", "dog"))
    assert [item.key for item in data.items][:3] == ["0.tar/a.b/s1", "0.tar/s2", "2.tar/a.b/s1"]
    assert widths(data) == [20, 40, 22, 42, 30, 50]
    assert [item.label for item in data.items] == [1, 0] * 3
    assert data.notes == ("members passed over, neither pictures nor labels: 6.",)
    assert widths(open_source(tmp_path / "wds" / "test" / "{0,10}.tar")) == [20, 40, 30, 50]
    assert widths(open_source(tmp_path / "wds" / "test" / "2.tar")) == [22, 42]


def test_shards_called_as_splits(tmp_path: Path) -> None:
    for name, width in (("train-0", 8), ("val-0", 9)):
        shard(tmp_path / "w" / f"{name}.tar", {"1.jpg": jpeg(width), "1.txt": b"cat"})
    assert widths(open_source(tmp_path / "w", split="val")) == [9]
    with pytest.raises(DatasetError, match="has no shard of the split 'test'; it has 'train', 'val'"):
        open_source(tmp_path / "w")


def test_labels_in_json_and_text(tmp_path: Path) -> None:
    told = {"1.json": b'{"label": "dog"}', "2.json": b'{"class_name": "cat"}', "3.txt": b"polar_bear\n"}
    shard(tmp_path / "s-000.tar", {f"{key}.jpg": jpeg(30 + key) for key in (1, 2, 3)} | told)
    data = open_source(tmp_path / "s-{000..000}.tar")
    assert data.class_names == ("cat", "dog", "polar bear")
    assert [item.label for item in data.items] == [1, 0, 2]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"1.txt": b"x"}, "no picture in the shards"),
        ({"1.jpg": b"x", "1.cls": b"0"}, "labels its pictures with numbers"),
        ({"1.jpg": b"x", "1.png": b"x"}, "several pictures of the key '1'"),
        ({"1.jpg": b"x", "1.json": b"{"}, "1.json is damaged"),
        ({"1.jpg": b"x", "1.json": b'{"label": [1]}'}, "1.json must tell a name or a number"),
        ({"1.jpg": b"x", "1.cls": b"cat", "2.jpg": b"x"}, "1 of 2 pictures have no label"),
    ],
)
def test_shards_that_cannot_be_loaded(members: dict[str, bytes], message: str, tmp_path: Path) -> None:
    shard(tmp_path / "s.tar", members)
    with pytest.raises(DatasetError, match=message):
        open_source(tmp_path / "s.tar")


def test_damaged_shards(tmp_path: Path) -> None:
    file = tmp_path / "s-0.tar"
    shard(file, {"1.jpg": jpeg(4), "1.txt": b"cat", "2.jpg": jpeg(5), "2.txt": b"cat"})
    data = open_source(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: 3 * 512 + -(-len(jpeg(4)) // 512) * 512 + 100])
    assert open_source(file).notes == ("shards without an end mark, perhaps cut off: 's-0.tar'.",)
    file.write_bytes(whole[:700])
    with pytest.raises(DatasetError, match="cut off|damaged"):
        open_source(file)
    with pytest.raises(DatasetError, match="has become shorter since it was opened"):
        data.items[1].read()
    file.write_bytes(b"no archive" * 100)
    with pytest.raises(DatasetError, match="is damaged or no plain tar file"):
        open_source(file)
    shard(file, {"1.jpg": b"x"}, "w:gz")
    with pytest.raises(DatasetError, match="a compressed one must be unpacked"):
        open_source(file)
    with pytest.raises(DatasetError, match="the shard '.*s-1.tar' is absent"):
        open_source(tmp_path / "s-{1..2}.tar")
    with pytest.raises(DatasetError, match="must count upwards"):
        open_source(tmp_path / "s-{3..2}.tar")


@given(st.integers(0, 40), st.integers(0, 9), st.integers(1, 5))
def test_patterns_of_numbers(first: int, more: int, width: int) -> None:
    names = expand(f"a-{{{first:0{width}d}..{first + more:0{width}d}}}.tar")
    assert names == [f"a-{number:0{width}d}.tar" for number in range(first, first + more + 1)]
