from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trees
from scipy.io import savemat
from trees import TREES, Expected

from cosmic_tta.datasets import CATALOGUE, few_shot, load_dataset, open_source, published
from cosmic_tta.datasets.catalogue import load_published, problems
from cosmic_tta.datasets.layouts import Published
from cosmic_tta.errors import DatasetError, UnknownNameError
from cosmic_tta.pictures import open_picture
from cosmic_tta.prompts import ENSEMBLE, class_texts

Build = Callable[[Path], Expected]
DRAWN = [
    "n01440764/n01440764_1.JPEG",
    "n01440764/n01440764_9.JPEG",
    "n03773504/n03773504_10.JPEG",
    "n03773504/n03773504_9.JPEG",
    "n04008634/n04008634_10.JPEG",
    "n04008634/n04008634_9.JPEG",
    "n07873807/n07873807_1.JPEG",
    "n07873807/n07873807_10.JPEG",
]


def resized(key: str, expected: Expected) -> Published:
    """Return a row of the catalogue that expects a small copy."""
    row = CATALOGUE[key]
    sizes = {split: len(pairs) for split, pairs in expected.splits.items()}
    layouts = tuple(replace(layout, sizes=sizes) for layout in row.layouts)  # type: ignore[type-var]
    return replace(row, classes=len(expected.class_names), sizes=sizes, layouts=layouts)


def test_the_catalogue_has_the_fifteen_of_the_paper() -> None:
    assert len(CATALOGUE) == 15
    assert {key for key, _ in TREES} == set(CATALOGUE)
    assert sum(row.classes for row in CATALOGUE.values()) == 1000 * 3 + 200 * 2 + 1191
    assert CATALOGUE["sun397"].templates == ENSEMBLE
    assert CATALOGUE["imagenet_sketch"].sizes == {"test": 50_889}


def test_the_page_on_data_sets_counts_as_the_catalogue_does() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "datasets.md").read_text(encoding="utf-8")
    for row in CATALOGUE.values():
        sizes = [f"{row.sizes[split]:,}" if split in row.sizes else "–" for split in ("train", "val", "test")]
        assert re.search(rf"\| `{row.key}` \| `{row.folders[0]}`.* \| {row.classes:,} \| {' . '.join(sizes)} \|", page)
        for layout in row.layouts:
            for size in (layout.sizes or {}).values():
                assert f"{size:,}" in page
    for code in re.findall(r"```python\n(from cosmic_tta.prompts.*?)```", page, flags=re.DOTALL):
        exec(code)


@pytest.mark.parametrize(("key", "build"), TREES, ids=lambda value: getattr(value, "__name__", value))
def test_a_data_set_loads_as_it_is_laid_out(key: str, build: Build, tmp_path: Path) -> None:
    expected = build(tmp_path)
    row = resized(key, expected)
    for split, pairs in expected.splits.items():
        data = load_published(row, tmp_path, split)
        assert (data.name, data.split, data.class_names) == (key, split, expected.class_names)
        assert [(item.key, item.label) for item in data.items] == pairs
        assert not [note for note in data.notes if "absent" in note or "partial" in note]
        assert data.templates == CATALOGUE[key].templates
        for item in data.items:
            assert open_picture(pickle.loads(pickle.dumps(item)).read()).size == (4, 3)
    assert [problem for _, problem in problems(row, tmp_path)] == [""] * len(expected.splits)
    texts = class_texts(data.class_names, data.templates)
    assert all(len(own) == len(data.templates) for own in texts)
    assert not any("_" in text or "n0" in text for own in texts for text in own)


@pytest.mark.parametrize(("key", "build"), TREES, ids=lambda value: getattr(value, "__name__", value))
def test_a_small_copy_is_refused_unless_allowed(key: str, build: Build, tmp_path: Path) -> None:
    expected = build(tmp_path)
    with pytest.raises(DatasetError, match=r"found \d+ pictures of \d+ classes, expected [\d,]+ of [\d,]+") as told:
        load_dataset(key, tmp_path)
    assert "strict=False" in str(told.value)
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


def test_the_folder_itself_is_recognised(tmp_path: Path) -> None:
    expected = trees.dtd(tmp_path)
    for data in (open_source(tmp_path / "dtd", strict=False), load_dataset("dtd", tmp_path / "dtd", strict=False)):
        assert data.class_names == expected.class_names
        assert data.templates == ("{} texture.",)
    trees.aircraft_published(tmp_path)
    assert open_source(tmp_path / "fgvc-aircraft-2013b" / "data", strict=False).name == "fgvc_aircraft"


def test_absent_pictures_are_counted_and_named(tmp_path: Path) -> None:
    expected = trees.dtd(tmp_path)
    for key, _ in expected.splits["test"][:4]:
        (tmp_path / "dtd" / "images" / key).unlink()
    with pytest.raises(DatasetError, match=r"names 6 pictures, of which 4 are not in .*banded_0005.jpg', .*, \.\.\."):
        load_published(resized("dtd", expected), tmp_path)
    data = load_dataset("dtd", tmp_path, strict=False)
    assert len(data) == 2
    assert any("absent and left out: 4" in note for note in data.notes)
    assert any("classes without a picture here: 2 of 3 ('banded', 'blotchy')" in note for note in data.notes)


def test_what_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="DTD is not in .* it should lie in 'dtd'"):
        load_dataset("dtd", tmp_path)
    with pytest.raises(DatasetError, match="is no folder; give the one that holds 'dtd'"):
        load_dataset("dtd", tmp_path / "nowhere")
    (tmp_path / "eurosat" / "2750").mkdir(parents=True)
    with pytest.raises(DatasetError, match=r"incomplete. Absent: split_zhou_EuroSAT.json"):
        load_dataset("eurosat", tmp_path)
    trees.food_published(tmp_path)
    with pytest.raises(DatasetError, match="Food101 has no split 'val' as it lies in .*; it has train, test"):
        load_dataset("food101", tmp_path, "val")
    with pytest.raises(DatasetError, match="unknown split 'holdout'"):
        load_dataset("food101", tmp_path, "holdout")


def spoil(told: dict[str, list[list[object]]], how: str) -> str:
    first = told["test"][0]
    if how == "escapes":
        first[0] = "../../etc/passwd.jpg"
    elif how == "gap":
        first[1], first[2] = 9, "new"
    elif how == "renamed":
        first[2] = "another"
    elif how == "twins":
        for entries in told.values():
            for entry in entries:
                entry[2] = "same"
    elif how == "short":
        told["test"][0] = first[:2]
    elif how == "negative":
        first[1] = -1
    elif how == "no test":
        del told["test"]
    return json.dumps(told)[: 40 if how == "cut" else None]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("escapes", "'../../etc/passwd.jpg' does not lie in"),
        ("gap", "without a gap; there is none of label '3'"),
        ("renamed", "calls class 0 'banded' and 'another'"),
        ("twins", "class names must differ; given more than once: 'same'"),
        ("short", "an entry must be .path, label, class name."),
        ("negative", "without a gap; there is label -1"),
        ("no test", "must be an object with a list under 'test'"),
        ("cut", "is damaged: it is no JSON"),
    ],
)
def test_a_spoiled_split_file(how: str, message: str, tmp_path: Path) -> None:
    trees.dtd(tmp_path)
    file = tmp_path / "dtd" / "split_zhou_DescribableTextures.json"
    file.write_text(spoil(json.loads(file.read_text()), how))
    with pytest.raises(DatasetError, match=message):
        load_dataset("dtd", tmp_path, strict=False)


def test_spoiled_lists(tmp_path: Path) -> None:
    trees.aircraft(tmp_path)
    file = tmp_path / "fgvc_aircraft" / "images_variant_test.txt"
    file.write_text("1514522 707-320\n0747566 Falcon 90\n")
    with pytest.raises(DatasetError, match="names the class 'Falcon 90', .*did you mean 'Falcon 900'"):
        load_dataset("aircraft", tmp_path, strict=False)
    file.write_text("1514522\n")
    with pytest.raises(DatasetError, match="images_variant_test.txt, line 1: '1514522' is not as published"):
        load_dataset("aircraft", tmp_path, strict=False)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match="is not UTF-8 text"):
        load_dataset("aircraft", tmp_path, strict=False)


def test_spoiled_matlab_files(tmp_path: Path) -> None:
    trees.flowers_published(tmp_path)
    folder = tmp_path / "oxford_flowers"
    savemat(folder / "setid.mat", {"tstid": [[6, 7]]})
    with pytest.raises(DatasetError, match="speaks of the pictures '7'; imagelabels.mat has 6 labels"):
        load_dataset("flowers", tmp_path, strict=False)
    savemat(folder / "setid.mat", {"trnid": [[6, 7]]})
    with pytest.raises(DatasetError, match="setid.mat has no field 'tstid'"):
        load_dataset("flowers", tmp_path, strict=False)
    (folder / "setid.mat").write_bytes(b"not a matrix" * 20)
    with pytest.raises(DatasetError, match="it is no MATLAB file"):
        load_dataset("flowers", tmp_path, strict=False)
    trees.cars_published(tmp_path)
    annotations = {"annotations": [{"fname": "00001.jpg", "bbox_x1": 3}]}
    savemat(tmp_path / "stanford_cars" / "cars_test_annos_withlabels.mat", annotations)
    with pytest.raises(DatasetError, match="take the file with the labels"):
        load_dataset("cars", tmp_path, strict=False)


def test_matlab_files_without_scipy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.flowers_published(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DatasetError, match=re.escape("pip install 'cosmic-tta[data]'")):
        load_dataset("flowers", tmp_path, strict=False)


def test_class_names_of_imagenet(tmp_path: Path) -> None:
    trees.imagenet(tmp_path)
    names = tmp_path / "imagenet" / "classnames.txt"
    names.write_text(names.read_text().replace("n07873807 pizza\n", ""))
    with pytest.raises(DatasetError, match="know nothing of 1 folders: 'n07873807'"):
        load_dataset("imagenet", tmp_path, strict=False)
    names.unlink()
    with pytest.raises(DatasetError, match=r"classnames.txt is absent, with a line such as 'n01440764 tench'"):
        load_dataset("imagenet", tmp_path, strict=False)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(dict(reversed({**trees.WORDNET, "n04008634": "projectile"}.items()))))
    data = load_dataset("imagenet", tmp_path, strict=False, classes_file=other)
    assert data.class_names == ("tench", "missile", "projectile", "pizza")
    plain = tmp_path / "plain.txt"
    plain.write_text("a\nb\nc\nd\n")
    assert load_dataset("imagenet", tmp_path, strict=False, classes_file=plain).class_names == tuple("abcd")
    trees.imagenet_v2(tmp_path)
    assert load_dataset("imagenet_v2", tmp_path, strict=False, classes_file=plain).class_names == tuple("abcd")
    plain.write_text("a\nb\n")
    with pytest.raises(DatasetError, match="has the class folders '2', '3'; only 2 classes have names"):
        load_dataset("imagenet_v2", tmp_path, strict=False, classes_file=plain)


def test_a_partial_imagenet_keeps_all_its_classes(tmp_path: Path) -> None:
    trees.imagenet_sketch(tmp_path)
    (tmp_path / "imagenet-sketch" / "images" / "n01440764" / "sketch_0.JPEG").unlink()
    data = load_dataset("imagenet_sketch", tmp_path, strict=False)
    assert data.class_names == trees.IMAGENET
    assert [item.label for item in data.items] == [1, 2, 3]
    assert "classes without a picture here: 1 of 4 ('tench')." in data.notes


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


def test_few_shots_are_the_same_everywhere(tmp_path: Path) -> None:
    trees.imagenet(tmp_path)
    train = load_dataset("imagenet", tmp_path, "train", strict=False)
    two = few_shot(train, 2, seed=1)
    # Written down once: whatever machine draws, these are drawn.
    drawn = [item.key for item in two.items]
    assert drawn == DRAWN
    assert [item.label for item in two.items] == [0, 0, 1, 1, 2, 2, 3, 3]
    backwards = replace(train, items=train.items[::-1])
    assert {item.key for item in few_shot(backwards, 2, seed=1).items} == set(drawn)
    assert {item.key for item in few_shot(train, 1, seed=1).items} < set(drawn)
    assert [item.key for item in few_shot(train, 2, seed=2).items] != drawn
    all_of_them = few_shot(train, 16)
    assert len(all_of_them) == len(train)
    assert "classes with fewer than 16 pictures: 4 of 4" in all_of_them.notes[-1]
    with pytest.raises(DatasetError, match="shots must be a whole number, at least 1; given 0"):
        few_shot(train, 0)
    with pytest.raises(DatasetError, match="has no labels"):
        few_shot(replace(train, items=(replace(train.items[0], label=None),)), 1)
