"""Small copies of the published data sets, with real images, laid out as their publishers or the CoOp project do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.io import savemat

from cosmic_tta.data.datasets import CATALOGUE
from cosmic_tta.data.datasets.layouts import PublishedDataset

Pairs = list[tuple[str, int]]  # key, label


@dataclass(frozen=True)
class Expected:
    class_names: tuple[str, ...]
    splits: Mapping[str, Pairs]


def resized(key: str, expected: Expected) -> PublishedDataset:
    """Return a row of the catalogue that expects a small copy."""
    row = CATALOGUE[key]
    sizes = {split: len(pairs) for split, pairs in expected.splits.items()}
    layouts = tuple(replace(layout, sizes=sizes) for layout in row.layouts)  # type: ignore[type-var]
    return replace(row, classes=len(expected.class_names), sizes=sizes, layouts=layouts)


def image(file: Path, colour: int = 0) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (colour * 40 % 256, 90, 30)).save(file, format="JPEG")


def images(folder: Path, splits: Mapping[str, Pairs]) -> None:
    for pairs in splits.values():
        for key, label in pairs:
            image(folder / key, label)


def write(file: Path, *lines: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def split_file(file: Path, names: Sequence[str], splits: Mapping[str, Pairs]) -> None:
    entries = {split: [[key, label, names[label]] for key, label in pairs] for split, pairs in splits.items()}
    write(file, json.dumps(entries))


def coop(folder: Path, inner: str, file: str, names: Sequence[str], paths: Sequence[str]) -> Mapping[str, Pairs]:
    """Lay out images with a split file; `paths` has one form a class, numbered."""
    splits = {
        split: [(path.format(start + shot), label) for label, path in enumerate(paths) for shot in range(count)]
        for split, start, count in (("train", 1, 3), ("val", 4, 1), ("test", 5, 2))
    }
    images(folder / inner, splits)
    split_file(folder / file, names, splits)
    return splits


def caltech(root: Path) -> Expected:
    folder = root / "caltech-101"
    names = ["face", "leopard", "accordion", "cougar_body"]
    paths = [f"{name}/image_{{:04d}}.jpg" for name in ("Faces", "Leopards", "accordion", "cougar_body")]
    splits = coop(folder, "101_ObjectCategories", "split_zhou_Caltech101.json", names, paths)
    for excluded in ("BACKGROUND_Google/image_0001.jpg", "Faces_easy/image_0001.jpg"):
        image(folder / "101_ObjectCategories" / excluded)
    write(folder / "101_ObjectCategories" / "BACKGROUND_Google" / "tmp", "x")
    return Expected(("face", "leopard", "accordion", "cougar body"), splits)


def dtd(root: Path) -> Expected:
    names = ["banded", "blotchy", "polka-dotted"]
    paths = [f"{name}/{name}_{{:04d}}.jpg" for name in names]
    splits = coop(root / "dtd", "images", "split_zhou_DescribableTextures.json", names, paths)
    write(root / "dtd" / "images" / "banded" / ".directory", "x")
    return Expected(tuple(names), splits)


def dtd_published(root: Path) -> Expected:
    splits = {
        "train": [("banded/banded_0002.jpg", 0), ("zigzagged/zigzagged_0001.jpg", 2)],
        "val": [("blotchy/blotchy_0003.jpg", 1)],
        "test": [("zigzagged/zigzagged_0009.jpg", 2), ("banded/banded_0004.jpg", 0)],
    }
    images(root / "dtd" / "images", splits)
    for split, pairs in splits.items():
        write(root / "dtd" / "labels" / f"{split}1.txt", *(key for key, _ in pairs))
    return Expected(("banded", "blotchy", "zigzagged"), splits)


def eurosat(root: Path) -> Expected:
    folders = ["AnnualCrop", "Forest", "SeaLake"]
    names = ["Annual Crop Land", "Forest", "SeaLake"]  # a split file with an old name in it
    paths = [f"{name}/{name}_{{}}.jpg" for name in folders]
    splits = coop(root / "eurosat", "2750", "split_zhou_EuroSAT.json", names, paths)
    return Expected(("Annual Crop Land", "Forest", "Sea or Lake"), splits)


def aircraft(root: Path, inner: str = "fgvc_aircraft") -> Expected:
    names = ("707-320", "DC-9-30", "Falcon 900", "Model B200", "F/A-18")
    splits: dict[str, Pairs] = {"train": [("0056978.jpg", 2)], "val": [("0124467.jpg", 0)], "test": []}
    splits["test"] = [("1514522.jpg", 4), ("0747566.jpg", 2), ("1008575.jpg", 3), ("0944859.jpg", 0)]
    folder = root / inner
    images(folder / "images", splits)
    write(folder / "variants.txt", *names)
    for split, pairs in splits.items():
        lines = (f"{key.removesuffix('.jpg')} {names[label]}" for key, label in pairs)
        write(folder / f"images_variant_{split}.txt", *lines)
    return Expected(names, splits)


def aircraft_published(root: Path) -> Expected:
    return aircraft(root, "fgvc-aircraft-2013b/data")


def flowers(root: Path) -> Expected:
    folder = root / "oxford_flowers"
    names = ["pink primrose", "hard-leaved pocket orchid", "bird of paradise"]
    splits = {
        "train": [("image_00001.jpg", 0), ("image_00002.jpg", 1), ("image_00003.jpg", 2)],
        "val": [("image_00004.jpg", 1)],
        "test": [("image_00006.jpg", 2), ("image_00005.jpg", 0)],
    }
    images(folder / "jpg", splits)
    split_file(folder / "split_zhou_OxfordFlowers.json", names, splits)
    write(folder / "cat_to_name.json", json.dumps({str(label + 1): name for label, name in enumerate(names)}))
    savemat(folder / "imagelabels.mat", {"labels": np.array([[1, 2, 3, 2, 1, 3]], np.uint8)})
    return Expected(tuple(names), splits)


def flowers_published(root: Path) -> Expected:
    expected = flowers(root)
    folder = root / "oxford_flowers"
    (folder / "split_zhou_OxfordFlowers.json").unlink()
    (folder / "cat_to_name.json").write_text(
        json.dumps({"3": "bird of paradise", "1": "pink primrose", "2": "hard-leaved pocket orchid"})
    )
    ids = {"trnid": [[1, 2, 3]], "valid": [[4]], "tstid": [[6, 5]]}
    savemat(folder / "setid.mat", {name: np.array(value, np.uint16) for name, value in ids.items()})
    return expected


def food(root: Path) -> Expected:
    names = ["apple_pie", "baby_back_ribs", "waffles"]
    paths = [f"{name}/10056{{}}.jpg" for name in names]
    splits = coop(root / "food-101", "images", "split_zhou_Food101.json", names, paths)
    return Expected(("apple pie", "baby back ribs", "waffles"), splits)


def food_published(root: Path) -> Expected:
    expected = food(root)
    folder = root / "food-101"
    (folder / "split_zhou_Food101.json").unlink()
    write(folder / "meta" / "classes.txt", "apple_pie", "baby_back_ribs", "waffles")
    for split in ("train", "test"):
        write(folder / "meta" / f"{split}.txt", *(key.removesuffix(".jpg") for key, _ in expected.splits[split]))
    return Expected(expected.class_names, {split: expected.splits[split] for split in ("train", "test")})


def pets(root: Path) -> Expected:
    names = ["abyssinian", "american_bulldog", "yorkshire_terrier"]
    paths = ["Abyssinian_{}.jpg", "american_bulldog_{}.jpg", "yorkshire_terrier_{}.jpg"]
    splits = coop(root / "oxford_pets", "images", "split_zhou_OxfordPets.json", names, paths)
    write(root / "oxford_pets" / "images" / "Abyssinian_1.mat", "x")
    return Expected(("abyssinian", "american bulldog", "yorkshire terrier"), splits)


def pets_published(root: Path) -> Expected:
    expected = pets(root)
    folder = root / "oxford_pets"
    (folder / "split_zhou_OxfordPets.json").unlink()
    for split, file in (("train", "trainval.txt"), ("test", "test.txt")):
        lines = (f"{key.removesuffix('.jpg')} {label + 1} 1 {label + 1}" for key, label in expected.splits[split])
        write(folder / "annotations" / file, "#Image CLASS-ID SPECIES BREED ID", *lines)
    return Expected(expected.class_names, {split: expected.splits[split] for split in ("train", "test")})


def cars(root: Path) -> Expected:
    names = ["2000 AM General Hummer SUV", "2012 Ram C/V Cargo Van Minivan"]
    splits = {
        "train": [("cars_train/00001.jpg", 1), ("cars_train/00002.jpg", 0)],
        "val": [("cars_train/00003.jpg", 0)],
        "test": [("cars_test/00001.jpg", 0), ("cars_test/00002.jpg", 1)],
    }
    images(root / "stanford_cars", splits)
    split_file(root / "stanford_cars" / "split_zhou_StanfordCars.json", names, splits)
    return Expected(tuple(names), splits)


def cars_published(root: Path, labels: str = "cars_test_annos_withlabels.mat") -> Expected:
    expected = cars(root)
    folder = root / "stanford_cars"
    (folder / "split_zhou_StanfordCars.json").unlink()
    (folder / "devkit").mkdir()
    names = np.array(["AM General Hummer SUV 2000", "Ram C/V Cargo Van Minivan 2012"], object)
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    splits = {"train": expected.splits["train"] + expected.splits["val"], "test": expected.splits["test"]}
    for split, file in (("train", "devkit/cars_train_annos.mat"), ("test", labels)):
        kind = [("bbox_x1", "O"), ("bbox_y2", "O"), ("class", "O"), ("fname", "O")]
        rows = [(39, 375, label + 1, key.split("/")[1]) for key, label in splits[split]]
        savemat(folder / file, {"annotations": np.array(rows, dtype=kind)[None]})
    return Expected(expected.class_names, splits)


def cars_devkit(root: Path) -> Expected:
    return cars_published(root, "devkit/cars_test_annos_withlabels.mat")


def sun(root: Path) -> Expected:
    names = ["abbey", "indoor airplane_cabin", "outdoor apartment_building"]
    inner = ["a/abbey", "a/airplane_cabin/indoor", "a/apartment_building/outdoor"]
    paths = [f"{name}/sun_a{{}}.jpg" for name in inner]
    splits = coop(root / "sun397", "SUN397", "split_zhou_SUN397.json", names, paths)
    return Expected(("abbey", "indoor airplane cabin", "outdoor apartment building"), splits)


def sun_published(root: Path) -> Expected:
    expected = sun(root)
    folder = root / "sun397"
    (folder / "split_zhou_SUN397.json").unlink()
    write(folder / "ClassName.txt", "/a/abbey", "/a/airplane_cabin/indoor", "/a/apartment_building/outdoor")
    for split, file in (("train", "Training_01.txt"), ("test", "Testing_01.txt")):
        write(folder / file, *(f"/{key}" for key, _ in expected.splits[split]))
    return Expected(expected.class_names, {split: expected.splits[split] for split in ("train", "test")})


def ucf(root: Path) -> Expected:
    names = ["Apply_Eye_Makeup", "Handstand_Pushups", "Yo_Yo"]
    videos = ["ApplyEyeMakeup", "HandStandPushups", "YoYo"]  # a video of push-ups is not spelled as its class
    paths = [f"{name}/v_{video}_g01_c{{:02d}}.jpg" for name, video in zip(names, videos, strict=True)]
    splits = coop(root / "ucf101", "UCF-101-midframes", "split_zhou_UCF101.json", names, paths)
    return Expected(("Apply Eye Makeup", "Handstand Pushups", "Yo Yo"), splits)


def ucf_published(root: Path) -> Expected:
    expected = ucf(root)
    folder = root / "ucf101"
    (folder / "split_zhou_UCF101.json").unlink()
    actions = ["ApplyEyeMakeup", "HandstandPushups", "YoYo"]
    lists = folder / "ucfTrainTestlist"
    write(lists / "classInd.txt", *(f"{label + 1} {name}" for label, name in enumerate(actions)))
    for split, number in (("train", True), ("test", False)):
        lines = []
        for key, label in expected.splits[split]:
            video = f"{actions[label]}/{key.split('/')[1].removesuffix('.jpg')}.avi"
            lines.append(f"{video} {label + 1}" if number else video)
        write(lists / f"{split}list01.txt", *lines)
    return Expected(expected.class_names, {split: expected.splits[split] for split in ("train", "test")})


WORDNET = {"n01440764": "tench", "n03773504": "missile", "n04008634": "missile", "n07873807": "pizza"}
IMAGENET = ("tench", "missile (n03773504)", "missile (n04008634)", "pizza")


def class_names(folder: Path) -> None:
    write(folder / "classnames.txt", *(f"{key} {name}" for key, name in WORDNET.items()))


def imagenet(root: Path, inner: str = "images/") -> Expected:
    folder = root / "imagenet"
    class_names(folder)
    ids = list(WORDNET)
    found = {
        "train": [(f"{key}/{key}_{shot}.JPEG", label) for label, key in enumerate(ids) for shot in (1, 10, 9)],
        "test": [(f"{key}/ILSVRC2012_val_0000000{label}.JPEG", label) for label, key in enumerate(ids)],
    }
    images(folder / f"{inner}train", {"train": found["train"]})
    images(folder / f"{inner}val", {"test": found["test"]})
    write(folder / f"{inner}val" / "n01440764" / "Thumbs.db", "x")
    return Expected(IMAGENET, {split: sorted(pairs) for split, pairs in found.items()})


def imagenet_published(root: Path) -> Expected:
    return imagenet(root, "")


def imagenet_a(root: Path, outer: str = "imagenet-adversarial", inner: str = "imagenet-a") -> Expected:
    pairs = [("n03773504/0.001_rocket.jpg", 0), ("n07873807/0.0002_pie _ pizza_0.9.jpg", 1)]
    images(root / outer / inner, {"test": pairs})
    write(root / outer / inner / "README.txt", "x")
    class_names(root / outer)
    return Expected(("missile", "pizza"), {"test": pairs})


def imagenet_r(root: Path) -> Expected:
    return imagenet_a(root, "imagenet-rendition", "imagenet-r")


def imagenet_r_published(root: Path) -> Expected:
    expected = imagenet_a(root, "imagenet-r", ".")
    (root / "imagenet-r" / "classnames.txt").unlink()
    class_names(root / "imagenet")  # the names lie with ImageNet alone
    return expected


def imagenet_v2(root: Path) -> Expected:
    inner = "imagenetv2-matched-frequency-format-val"
    pairs = [("0/7e2d.jpeg", 0), ("1/aa.jpeg", 1), ("2/bb.jpeg", 2), ("3/cc.jpeg", 3)]
    images(root / "imagenetv2" / inner, {"test": pairs})
    class_names(root / "imagenetv2")
    return Expected(IMAGENET, {"test": pairs})


def imagenet_sketch(root: Path) -> Expected:
    pairs = [(f"{key}/sketch_{label}.JPEG", label) for label, key in enumerate(WORDNET)]
    images(root / "imagenet-sketch" / "images", {"test": pairs})
    class_names(root / "imagenet-sketch")
    return Expected(IMAGENET, {"test": pairs})


TREES: list[tuple[str, Callable[[Path], Expected]]] = [
    ("imagenet", imagenet),
    ("imagenet", imagenet_published),
    ("imagenet_a", imagenet_a),
    ("imagenet_v2", imagenet_v2),
    ("imagenet_r", imagenet_r),
    ("imagenet_r", imagenet_r_published),
    ("imagenet_sketch", imagenet_sketch),
    ("caltech101", caltech),
    ("dtd", dtd),
    ("dtd", dtd_published),
    ("eurosat", eurosat),
    ("fgvc_aircraft", aircraft),
    ("fgvc_aircraft", aircraft_published),
    ("flowers102", flowers),
    ("flowers102", flowers_published),
    ("food101", food),
    ("food101", food_published),
    ("oxford_pets", pets),
    ("oxford_pets", pets_published),
    ("stanford_cars", cars),
    ("stanford_cars", cars_published),
    ("stanford_cars", cars_devkit),
    ("sun397", sun),
    ("sun397", sun_published),
    ("ucf101", ucf),
    ("ucf101", ucf_published),
]


def features(**columns: Any) -> dict[bytes, bytes]:
    """Return schema metadata as Hugging Face writes it."""
    return {b"huggingface": json.dumps({"info": {"features": columns}}).encode()}
