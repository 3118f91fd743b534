from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError, UnknownNameError
from cosmic_tta.data.datasets import load_dataset, published
from tests.support import trees
from tests.support.trees import TREES, Expected

Build = Callable[[Path], Expected]


@pytest.mark.parametrize(("key", "build"), TREES, ids=lambda value: getattr(value, "__name__", value))
def test_a_small_copy_is_refused_unless_allowed(key: str, build: Build, tmp_path: Path) -> None:
    expected = build(tmp_path)
    with pytest.raises(DatasetError, match=r"found \d+ images of \d+ classes, expected [\d,]+ of [\d,]+") as error:
        load_dataset(key, tmp_path)
    assert "strict=False" in str(error.value)
    data = load_dataset(key.upper().replace("_", "-"), tmp_path, strict=False)
    assert len(data) == len(expected.splits["test"])
    assert any("partial copy" in note for note in data.notes)


def test_names_in_any_spelling_and_a_wrong_one() -> None:
    for name in ("ImageNet-V2", "imagenetv2", "IMAGENET_V2"):
        assert published(name).key == "imagenet_v2"
    assert published("Oxford Flowers").key == "flowers102"
    assert published("caltech-101").key == "caltech101"
    with pytest.raises(UnknownNameError, match="unknown data set 'eurosad': did you mean 'eurosat'"):
        published("eurosad")


def test_what_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="DTD is not in .* put it into 'dtd' there"):
        load_dataset("dtd", tmp_path)
    with pytest.raises(DatasetError, match="is not a folder; give the folder that holds 'dtd'"):
        load_dataset("dtd", tmp_path / "nowhere")
    (tmp_path / "eurosat" / "2750").mkdir(parents=True)
    with pytest.raises(DatasetError, match=r"incomplete. Missing: split_zhou_EuroSAT.json"):
        load_dataset("eurosat", tmp_path)
    trees.food_published(tmp_path)
    with pytest.raises(DatasetError, match="Food101 in .* has no split 'val'; it has train, test"):
        load_dataset("food101", tmp_path, "val")
    with pytest.raises(DatasetError, match="unknown split 'holdout'"):
        load_dataset("food101", tmp_path, "holdout")


def test_own_class_names_for_a_data_set(tmp_path: Path) -> None:
    trees.dtd(tmp_path)
    names = tmp_path / "names.txt"
    names.write_text("striped\nspotted\ndotted\n")
    assert load_dataset("dtd", tmp_path, strict=False, classes_file=names).class_names == (
        "striped",
        "spotted",
        "dotted",
    )
    keyed = tmp_path / "names.json"
    keyed.write_text(json.dumps({"Polka-Dotted": "dotted", "banded": "striped", "blotchy": "spotted"}))
    assert load_dataset("dtd", tmp_path, strict=False, classes_file=keyed).class_names[0] == "striped"
    keyed.write_text(json.dumps({"polka-dotted": "dotted", "banded": "striped"}))
    with pytest.raises(DatasetError, match="names the class 'blotchy', which is none of 2 classes"):
        load_dataset("dtd", tmp_path, strict=False, classes_file=keyed)
    names.write_text("striped\n")
    with pytest.raises(DatasetError, match="names 1 classes; split_zhou_DescribableTextures.json has 3"):
        load_dataset("dtd", tmp_path, strict=False, classes_file=names)
