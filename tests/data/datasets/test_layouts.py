from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import load_dataset
from tests.support import trees
from tests.support.image_sources import (
    check_damaged_bytes,
)


def damage(splits: dict[str, list[list[object]]], how: str) -> str:
    first = splits["test"][0]
    if how == "escapes":
        first[0] = "../../etc/passwd.jpg"
    elif how == "gap":
        first[1], first[2] = 9, "new"
    elif how == "renamed":
        first[2] = "another"
    elif how == "twins":
        for entries in splits.values():
            for entry in entries:
                entry[2] = "same"
    elif how == "short":
        splits["test"][0] = first[:2]
    elif how == "negative":
        first[1] = -1
    elif how == "no test":
        del splits["test"]
    return json.dumps(splits)[: 40 if how == "cut" else None]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("escapes", "'../../etc/passwd.jpg' is not inside"),
        ("gap", "without a gap; there is none of label '3'"),
        ("renamed", "calls class 0 'banded' and 'another'"),
        ("twins", "class names must differ; given more than once: 'same'"),
        ("short", "an entry must be .path, label, class name."),
        ("negative", "without a gap; there is label -1"),
        ("no test", "must be an object with a list under 'test'"),
        ("cut", "is damaged: it is not valid JSON"),
    ],
)
def test_a_damaged_split_file(how: str, message: str, tmp_path: Path) -> None:
    trees.dtd(tmp_path)
    file = tmp_path / "dtd" / "split_zhou_DescribableTextures.json"
    file.write_text(damage(json.loads(file.read_text()), how))
    with pytest.raises(DatasetError, match=message):
        load_dataset("dtd", tmp_path, strict=False)


def test_damaged_lists(tmp_path: Path) -> None:
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


def test_class_names_of_imagenet(tmp_path: Path) -> None:
    trees.imagenet(tmp_path)
    names = tmp_path / "imagenet" / "classnames.txt"
    names.write_text(names.read_text().replace("n07873807 pizza\n", ""))
    with pytest.raises(DatasetError, match="1 folders have no class name: 'n07873807'"):
        load_dataset("imagenet", tmp_path, strict=False)
    names.unlink()
    with pytest.raises(DatasetError, match=r"classnames.txt is missing, with a line such as 'n01440764 tench'"):
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
    assert "classes without an image here: 1 of 4 ('tench')." in data.notes


def test_damaged_split_files_are_refused_or_harmless(tmp_path: Path) -> None:
    trees.dtd(tmp_path)
    check_damaged_bytes(tmp_path / "dtd", tmp_path / "dtd" / "split_zhou_DescribableTextures.json")
