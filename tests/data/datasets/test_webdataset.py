from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.datasets.webdataset import expand
from tests.support.image_sources import (
    check_damaged_bytes,
    jpeg,
    shard,
    widths,
)
from tests.support.trees import write


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
    assert data.notes == ("members ignored, neither images nor labels: 6.",)
    assert widths(open_source(tmp_path / "wds" / "test" / "{0,10}.tar")) == [20, 40, 30, 50]
    assert widths(open_source(tmp_path / "wds" / "test" / "2.tar")) == [22, 42]


def test_shards_called_as_splits(tmp_path: Path) -> None:
    for name, width in (("train-0", 8), ("val-0", 9)):
        shard(tmp_path / "w" / f"{name}.tar", {"1.jpg": jpeg(width), "1.txt": b"cat"})
    assert widths(open_source(tmp_path / "w", split="val")) == [9]
    with pytest.raises(DatasetError, match="has no shard of the split 'test'; it has 'train', 'val'"):
        open_source(tmp_path / "w")


def test_labels_in_json_and_text(tmp_path: Path) -> None:
    labels = {"1.json": b'{"label": "dog"}', "2.json": b'{"class_name": "cat"}', "3.txt": b"polar_bear\n"}
    shard(tmp_path / "s-000.tar", {f"{key}.jpg": jpeg(30 + key) for key in (1, 2, 3)} | labels)
    data = open_source(tmp_path / "s-{000..000}.tar")
    assert data.class_names == ("cat", "dog", "polar bear")
    assert [item.label for item in data.items] == [1, 0, 2]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"1.txt": b"x"}, "no image in the shards"),
        ({"1.jpg": b"x", "1.cls": b"0"}, "labels its images with numbers"),
        ({"1.jpg": b"x", "1.png": b"x"}, "several images with the key '1'"),
        ({"1.jpg": b"x", "1.json": b"{"}, "1.json is damaged"),
        ({"1.jpg": b"x", "1.json": b'{"label": [1]}'}, "1.json must hold a name or a number"),
        ({"1.jpg": b"x", "1.cls": b"cat", "2.jpg": b"x"}, "1 of 2 images have no label"),
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
    assert open_source(file).notes == ("shards without an end mark, perhaps truncated: 's-0.tar'.",)
    file.write_bytes(whole[:700])
    with pytest.raises(DatasetError, match="truncated|damaged"):
        open_source(file)
    with pytest.raises(DatasetError, match="has become shorter since it was opened"):
        data.items[1].read()
    file.write_bytes(b"no archive" * 100)
    with pytest.raises(DatasetError, match="is damaged or not a plain tar file"):
        open_source(file)
    shard(file, {"1.jpg": b"x"}, "w:gz")
    with pytest.raises(DatasetError, match="decompress it to .tar first"):
        open_source(file)
    with pytest.raises(DatasetError, match="the shard '.*s-1.tar' is missing"):
        open_source(tmp_path / "s-{1..2}.tar")
    with pytest.raises(DatasetError, match="must count upwards"):
        open_source(tmp_path / "s-{3..2}.tar")


@given(st.integers(0, 40), st.integers(0, 9), st.integers(1, 5))
def test_patterns_of_numbers(first: int, more: int, width: int) -> None:
    names = expand(f"a-{{{first:0{width}d}..{first + more:0{width}d}}}.tar")
    assert names == [f"a-{number:0{width}d}.tar" for number in range(first, first + more + 1)]


def test_damaged_bytes_of_a_shard_are_refused_or_harmless(tmp_path: Path) -> None:
    members = {"1.jpg": jpeg(4), "1.txt": b"cat", "2.jpg": jpeg(5), "2.json": b'{"label": "dog"}'}
    shard(tmp_path / "s.tar", members)
    check_damaged_bytes(tmp_path / "s.tar", tmp_path / "s.tar")
