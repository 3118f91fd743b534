from __future__ import annotations

from pathlib import Path

import pytest
from scipy.io import savemat

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import load_dataset
from tests.support import trees
from tests.support.image_sources import (
    check_damaged_bytes,
)


def test_damaged_matlab_files(tmp_path: Path) -> None:
    trees.flowers_published(tmp_path)
    folder = tmp_path / "oxford_flowers"
    savemat(folder / "setid.mat", {"tstid": [[6, 7]]})
    with pytest.raises(DatasetError, match="names the images '7'; imagelabels.mat has 6 labels"):
        load_dataset("flowers", tmp_path, strict=False)
    savemat(folder / "setid.mat", {"trnid": [[6, 7]]})
    with pytest.raises(DatasetError, match="setid.mat has no field 'tstid'"):
        load_dataset("flowers", tmp_path, strict=False)
    (folder / "setid.mat").write_bytes(b"not a matrix" * 20)
    with pytest.raises(DatasetError, match="not a MATLAB file"):
        load_dataset("flowers", tmp_path, strict=False)
    trees.cars_published(tmp_path)
    annotations = {"annotations": [{"fname": "00001.jpg", "bbox_x1": 3}]}
    savemat(tmp_path / "stanford_cars" / "cars_test_annos_withlabels.mat", annotations)
    with pytest.raises(DatasetError, match="take the file with the labels"):
        load_dataset("cars", tmp_path, strict=False)


def test_damaged_flower_lists_are_refused_or_harmless(tmp_path: Path) -> None:
    trees.flowers_published(tmp_path)
    check_damaged_bytes(tmp_path / "oxford_flowers", tmp_path / "oxford_flowers" / "setid.mat")


def test_damaged_car_annotations_are_refused_or_harmless(tmp_path: Path) -> None:
    trees.cars_published(tmp_path)
    folder = tmp_path / "stanford_cars"
    check_damaged_bytes(folder, folder / "cars_test_annos_withlabels.mat")
