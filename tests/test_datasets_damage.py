"""Whatever byte of a file is spoiled: it loads, or one error says so, and the process lives on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
import trees
from scipy.io import savemat
from test_datasets_archives import embedded, jpeg, save, shard

from cosmic_tta.datasets import arrow, open_source
from cosmic_tta.datasets.matfile import read_mat
from cosmic_tta.errors import CosmicError, DatasetError

Made = tuple[Path, Path]  # the source, and the file to spoil


def make_table(folder: Path) -> Made:
    trees.picture(folder / "a.jpg")
    trees.write(folder / "t.csv", "path,label", "a.jpg,cat", "a.jpg,dog")
    return folder / "t.csv", folder / "t.csv"


def make_split(folder: Path) -> Made:
    trees.dtd(folder)
    return folder / "dtd", folder / "dtd" / "split_zhou_DescribableTextures.json"


def make_flowers(folder: Path) -> Made:
    trees.flowers_published(folder)
    return folder / "oxford_flowers", folder / "oxford_flowers" / "setid.mat"


def make_cars(folder: Path) -> Made:
    trees.cars_published(folder)
    return folder / "stanford_cars", folder / "stanford_cars" / "cars_test_annos_withlabels.mat"


def make_shard(folder: Path) -> Made:
    shard(folder / "s.tar", {"1.jpg": jpeg(4), "1.txt": b"cat", "2.jpg": jpeg(5), "2.json": b'{"label": "dog"}'})
    return folder / "s.tar", folder / "s.tar"


def make_parquet(folder: Path) -> Made:
    pq.write_table(embedded(10, [2, 0, 0, 1, 2]), folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet", folder / "t.parquet"


def make_arrow(folder: Path) -> Made:
    save(folder / "one", embedded(10, [0, 1, 2]))
    return folder / "one", folder / "one" / "data-00000-of-00001.arrow"


@pytest.mark.parametrize(
    "make", [make_table, make_split, make_flowers, make_cars, make_shard, make_parquet, make_arrow]
)
def test_spoiled_bytes_are_told_or_harmless(make: Callable[[Path], Made], tmp_path: Path) -> None:
    source, file = make(tmp_path)
    whole, random, refused = file.read_bytes(), Random(0), 0
    for _ in range(150):
        spoiled = bytearray(whole)
        for _ in range(random.choice((1, 1, 5))):
            spoiled[random.randrange(len(whole))] = random.randrange(256)
        file.unlink()  # a new file: what is mapped into memory stays as it was
        file.write_bytes(spoiled[: random.choice((len(whole), len(whole), random.randrange(len(whole))))])
        arrow._table.cache_clear()
        arrow._part.cache_clear()
        try:
            for item in open_source(source, strict=False).items:
                item.read()
        except CosmicError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("compressed", [False, True])
def test_sound_matlab_files_pass(compressed: bool, tmp_path: Path) -> None:
    values = {
        "numbers": [[1, 2, 3]],
        "word": "né",
        "nothing": [],
        "complex": [[1j, 2]],
        "rows": [{"name": "a", "deep": {"x": 1}}, {"name": "b", "deep": {"x": 2}}],
    }
    savemat(tmp_path / "x.mat", values, do_compression=compressed)
    told = read_mat(tmp_path / "x.mat")
    assert [row["deep"]["x"] for row in told["rows"]] == [1, 2]
    assert told["word"] == "né"
    savemat(tmp_path / "old.mat", {"numbers": [[1, 2]]}, format="4")
    with pytest.raises(DatasetError, match="not of version 5 to 7"):
        read_mat(tmp_path / "old.mat")
