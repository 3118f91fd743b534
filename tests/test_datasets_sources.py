"""Folders and tables of anyone's pictures; archives and Hugging Face's files have a test file of their own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import picture, write

from cosmic_tta.datasets import Dataset, open_source
from cosmic_tta.datasets.files import inside, natural
from cosmic_tta.datasets.labels import settle
from cosmic_tta.errors import DatasetError, InputError, UnknownNameError
from cosmic_tta.pictures import open_picture
from cosmic_tta.prompts import ClassNames


def seen(data: Dataset) -> list[tuple[str, int | None]]:
    for item in data.items:
        assert open_picture(pickle.loads(pickle.dumps(item)).read()).size == (4, 3)
    return [(item.key, item.label) for item in data.items]


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    for name in ("class10/b.PNG", "class10/a.jpg", "class9/deep/er/x.webp", "polar_bear/z.jpeg", "polar_bear/Z.jpeg"):
        picture(folder / name)
    for name in ("polar_bear/Thumbs.db", "polar_bear/.hidden.jpg", ".git/x.jpg", "notes.txt", "loose.jpg"):
        picture(folder / name)
    return folder


def test_a_folder_a_class(zoo: Path) -> None:
    data = open_source(zoo)
    assert (data.name, data.split) == ("zoo", "test")
    assert data.class_names == ("class9", "class10", "polar bear")
    assert seen(data) == [
        ("class10/a.jpg", 1),
        ("class10/b.PNG", 1),
        ("class9/deep/er/x.webp", 0),
        ("polar_bear/Z.jpeg", 2),
        ("polar_bear/z.jpeg", 2),
    ]
    assert data.notes == ("files passed over, no pictures: 3.", "pictures passed over, beside the class folders: 1.")
    assert open_source(zoo, blanks=False).class_names == ("class9", "class10", "polar_bear")


def test_a_file_of_class_names_tells_the_order(zoo: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Polar Bear\nclass9\n\nclass10\n")
    data = open_source(zoo, classes_file=names)
    assert data.class_names == ("Polar Bear", "class9", "class10")
    assert [label for _, label in seen(data)] == [2, 2, 1, 0, 0]
    names.write_text('{"class9": "nine", "class10": "ten", "polar_bear": "white bear", "owl": "owl"}')
    keyed = names.rename(tmp_path / "names.json")
    with pytest.raises(DatasetError, match="has 1 classes without a folder: 'owl'"):
        open_source(zoo, classes_file=keyed)
    data = open_source(zoo, classes_file=keyed, strict=False)
    assert data.class_names == ("nine", "ten", "white bear", "owl")
    assert "classes without a picture here: 1 of 4 ('owl')." in data.notes
    names.write_text("polar bears\nclass9\nclass10\n")
    with pytest.raises(DatasetError, match="names the class 'polar bear', .* did you mean 'polar bears'"):
        open_source(zoo, classes_file=names)
    names.write_text("a\na\nb\n")
    with pytest.raises(DatasetError, match="class names must differ; given more than once: 'a'"):
        open_source(zoo, classes_file=names)
    with pytest.raises(InputError, match="class names cannot be read from"):
        open_source(zoo, classes_file=tmp_path / "nowhere.txt")


def test_numbered_class_folders(tmp_path: Path) -> None:
    for number in range(11):
        picture(tmp_path / "n" / str(number) / "x.jpg", number)
    assert open_source(tmp_path / "n").class_names == tuple(map(str, range(11)))
    write(tmp_path / "n" / "classnames.txt", *(f"class {chr(97 + number)}" for number in range(11)))
    data = open_source(tmp_path / "n")
    assert data.class_names[10] == "class k"
    assert dict(seen(data))["10/x.jpg"] == 10


def test_wordnet_folders_anywhere(tmp_path: Path) -> None:
    for key in ("n03773504", "n04008634"):
        picture(tmp_path / "w" / key / "x.jpg")
    assert open_source(tmp_path / "w").class_names == ("n03773504", "n04008634")
    write(tmp_path / "w" / "classnames.txt", "n04008634 missile", "n03773504 missile")
    data = open_source(tmp_path / "w")
    assert data.class_names == ("missile (n04008634)", "missile (n03773504)")
    assert [label for _, label in seen(data)] == [1, 0]


def test_folders_of_splits(tmp_path: Path) -> None:
    for name in ("train/cat/1.jpg", "validation/cat/2.jpg", "validation/dog/3.jpg"):
        picture(tmp_path / "pets" / name)
    assert seen(open_source(tmp_path / "pets", split="val")) == [("cat/2.jpg", 0), ("dog/3.jpg", 1)]
    assert open_source(tmp_path / "pets", split="training").split == "train"
    with pytest.raises(DatasetError, match="has no split 'test'; it has 'train', 'validation'"):
        open_source(tmp_path / "pets")
    picture(tmp_path / "pets" / "val" / "cat" / "4.jpg")
    with pytest.raises(DatasetError, match="has a split twice: 'train', 'val', 'validation'"):
        open_source(tmp_path / "pets", split="val")


def test_pictures_without_labels(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.jpg", "B.jpg"):
        picture(tmp_path / "flat" / name)
    with pytest.raises(
        DatasetError, match="has no labels, so it does not tell the classes: name the classes in a file"
    ):
        open_source(tmp_path / "flat")
    write(tmp_path / "names.txt", "cat", "dog")
    data = open_source(tmp_path / "flat", classes_file=tmp_path / "names.txt")
    assert data.class_names == ("cat", "dog")
    assert seen(data) == [("B.jpg", None), ("a.jpg", None), ("b.jpg", None)]
    assert data.notes == ()


def test_folders_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(DatasetError, match="holds no picture, nor do its folders"):
        open_source(tmp_path / "empty")
    picture(tmp_path / "empty" / "dog" / "1.jpg")
    with pytest.raises(DatasetError, match="has 1 class folders without a picture: 'cat'. Fill or remove them"):
        open_source(tmp_path / "empty")
    data = open_source(tmp_path / "empty", strict=False)
    assert data.class_names == ("cat", "dog")
    assert "classes without a picture here: 1 of 2 ('cat')." in data.notes
    for name in ("polar_bear", "Polar bear"):
        picture(tmp_path / "twins" / name / "1.jpg")
    with pytest.raises(DatasetError, match="'Polar bear', 'polar_bear' are one class name in several spellings"):
        open_source(tmp_path / "twins")
    with pytest.raises(DatasetError, match="there is no '.*nowhere/at/all'"):
        open_source(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(UnknownNameError, match="unknown file, folder or data set 'dttd': did you mean 'dtd'"):
        open_source("dttd")
    with pytest.raises(UnknownNameError, match="unknown file, folder or data set 'mini:': did you mean 'mini'"):
        open_source("mini:")
    with pytest.raises(DatasetError, match="'dtd' is a published data set: say which folder it lies under"):
        open_source("dtd")
    write(tmp_path / "x.pdf", "x")
    with pytest.raises(DatasetError, match="is no source of pictures: give a folder, .csv"):
        open_source(tmp_path / "x.pdf")


def test_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "cat" / "1.jpg")
    (tmp_path / "a" / "cat" / "again").symlink_to(tmp_path / "a" / "cat")
    data = open_source(tmp_path / "a")
    assert [item.key for item in data.items] == ["cat/1.jpg"]


def test_links_add_only_what_is_found_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "a" / "cat" / "inner" / "1.jpg")
    picture(tmp_path / "a" / "dog" / "2.jpg")
    picture(tmp_path / "elsewhere" / "3.jpg")
    (tmp_path / "a" / "cat" / "above").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "cat" / "beside").symlink_to(tmp_path / "a" / "cat" / "inner")
    (tmp_path / "a" / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a" / "cat" / "self").symlink_to("self")
    (tmp_path / "a" / "self").symlink_to("self")
    monkeypatch.chdir(tmp_path)
    for folder in (Path("a"), tmp_path / "a"):
        keys = [item.key for item in open_source(folder).items]
        assert keys == ["cat/inner/1.jpg", "cat/more/3.jpg", "dog/2.jpg"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("b.jpg", "sub/a.jpg", "c.jpg"):
        picture(tmp_path / "t" / name)
    return tmp_path / "t" / "list.csv"


def test_a_table_of_paths_and_names(table: Path) -> None:
    write(table, "\ufeffPath,Label", "sub/a.jpg,polar_bear", 'b.jpg,"cat, black"', "c.jpg,polar_bear")
    data = open_source(table)
    assert data.class_names == ("cat, black", "polar bear")
    assert seen(data) == [("sub/a.jpg", 1), ("b.jpg", 0), ("c.jpg", 1)]
    write(table, "file;class", "c.jpg;x", "b.jpg;y")
    assert seen(open_source(table)) == [("c.jpg", 0), ("b.jpg", 1)]
    write(table.with_suffix(".tsv"), "image\tlabel", f"{table.parent}/sub/a.jpg\tx")
    assert seen(open_source(table.with_suffix(".tsv"))) == [("sub/a.jpg", 0)]
    write(table.parent.parent / "far.csv", "path,label", "b.jpg,x")
    assert seen(open_source(table.parent.parent / "far.csv", root=table.parent)) == [("b.jpg", 0)]


def test_a_table_of_numbers(table: Path, tmp_path: Path) -> None:
    write(table, "path,label", "b.jpg,1", "c.jpg,0")
    with pytest.raises(DatasetError, match="labels its pictures with numbers: name the classes in a file"):
        open_source(table)
    write(tmp_path / "names.txt", "cat", "dog", "owl")
    data = open_source(table, classes_file=tmp_path / "names.txt")
    assert data.class_names == ("cat", "dog", "owl")
    assert seen(data) == [("b.jpg", 1), ("c.jpg", 0)]
    assert data.notes == ("classes without a picture here: 1 of 3 ('owl').",)
    write(table, "path,label,class_name,split", "b.jpg,1,dog,test", "c.jpg,0,cat,train")
    data = open_source(table)
    assert data.class_names == ("cat", "dog")
    assert seen(data) == [("b.jpg", 1)]
    assert seen(open_source(table, split="train")) == [("c.jpg", 0)]
    with pytest.raises(DatasetError, match="has no row of the split 'val'; it has 'test', 'train'"):
        open_source(table, split="val")
    write(table, "path", "b.jpg")
    assert seen(open_source(table, classes_file=tmp_path / "names.txt")) == [("b.jpg", None)]


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
        (["path,label", "b.jpg,x", "c.jpg,"], "1 of 2 pictures have no label"),
        (["path,label", "../b.jpg,x"], "'../b.jpg' does not lie in"),
        (["path,label", "/etc/b.jpg,x"], "'/etc/b.jpg' does not lie in"),
        (["path,label", "C:\\b.jpg,x"], "does not lie in"),
        (["path,label", "nope.jpg,x", "b.jpg,x"], "names 2 pictures, of which 1 are not in"),
        (["path,label,class_name", "b.jpg,0,cat", "c.jpg,0,dog"], "calls class 0 'cat' and 'dog'"),
    ],
)
def test_tables_that_cannot_be_loaded(lines: list[str], message: str, table: Path) -> None:
    write(table, *lines)
    with pytest.raises(DatasetError, match=message.replace("\\", r"\\")):
        open_source(table)


def test_labels_out_of_range(table: Path, tmp_path: Path) -> None:
    write(table, "path,label", "b.jpg,2", "c.jpg,-1")
    write(tmp_path / "names.txt", "cat", "dog")
    with pytest.raises(DatasetError, match="2 labels are out of range, such as '-1', '2'; there are 2 classes, 0 to 1"):
        open_source(table, classes_file=tmp_path / "names.txt")


@given(st.lists(st.text(alphabet="aB01٢. ", max_size=6), max_size=6), st.randoms())
def test_natural_order_is_an_order(names: list[str], random: Random) -> None:
    shuffled = random.sample(names, len(names))
    assert sorted(names, key=natural) == sorted(shuffled, key=natural)


@given(st.text(alphabet="ab./\\: -", max_size=12))
def test_no_path_leaves_its_folder(given_path: str) -> None:
    root = Path("/data/set")
    try:
        relative = inside(given_path, root)
    except DatasetError:
        return
    assert not relative.startswith("/")
    assert ".." not in relative.split("/")
    assert (root / relative).is_relative_to(root)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_names_numbers_and_keys_settle_alike(labels: list[int]) -> None:
    told = ClassNames(("polar_bear", "cat", "dog", "owl", "newt"), ("k1", "k2", "k3", "k4", "k5"))
    assert told.keys is not None
    wanted = (told.names, labels)
    assert settle(labels, told, "it") == wanted
    assert settle([told.names[label].upper() for label in labels], told, "it") == wanted
    assert settle([told.keys[label] for label in labels], told, "it") == wanted


def test_importing_data_sets_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, cosmic_tta.datasets, cosmic_tta.prompts; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "pyarrow", "typer", "rich"} & set(done.stdout.split())
