from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError, UnknownNameError
from cosmic_tta.data.datasets import load_dataset, open_source
from tests.support import trees
from tests.support.image_sources import keys_and_labels
from tests.support.trees import image, write


def test_folders_of_splits(tmp_path: Path) -> None:
    for name in ("train/cat/1.jpg", "validation/cat/2.jpg", "validation/dog/3.jpg"):
        image(tmp_path / "pets" / name)
    assert keys_and_labels(open_source(tmp_path / "pets", split="val")) == [("cat/2.jpg", 0), ("dog/3.jpg", 1)]
    assert open_source(tmp_path / "pets", split="training").split == "train"
    with pytest.raises(DatasetError, match="has no split 'test'; it has 'train', 'validation'"):
        open_source(tmp_path / "pets")
    image(tmp_path / "pets" / "val" / "cat" / "4.jpg")
    with pytest.raises(DatasetError, match="has a split twice: 'train', 'val', 'validation'"):
        open_source(tmp_path / "pets", split="val")


def test_folders_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(DatasetError, match="and its folders contain no image"):
        open_source(tmp_path / "empty")
    image(tmp_path / "empty" / "dog" / "1.jpg")
    with pytest.raises(DatasetError, match="has 1 class folders without an image: 'cat'. Fill or remove them"):
        open_source(tmp_path / "empty")
    data = open_source(tmp_path / "empty", strict=False)
    assert data.class_names == ("cat", "dog")
    assert "classes without an image here: 1 of 2 ('cat')." in data.notes
    for name in ("polar_bear", "Polar bear"):
        image(tmp_path / "twins" / name / "1.jpg")
    with pytest.raises(DatasetError, match="'Polar bear', 'polar_bear' are one class name in several spellings"):
        open_source(tmp_path / "twins")
    with pytest.raises(DatasetError, match="there is no '.*nowhere/at/all'"):
        open_source(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(UnknownNameError, match="unknown file, folder or data set 'dttd': did you mean 'dtd'"):
        open_source("dttd")
    with pytest.raises(UnknownNameError, match="unknown file, folder or data set 'mini:': did you mean 'mini'"):
        open_source("mini:")
    with pytest.raises(DatasetError, match="'dtd' is a published data set: give the folder that contains it"):
        open_source("dtd")
    write(tmp_path / "x.pdf", "x")
    with pytest.raises(DatasetError, match="is not a source of images: give a folder, .csv"):
        open_source(tmp_path / "x.pdf")


def test_the_folder_itself_is_recognised(tmp_path: Path) -> None:
    expected = trees.dtd(tmp_path)
    for data in (open_source(tmp_path / "dtd", strict=False), load_dataset("dtd", tmp_path / "dtd", strict=False)):
        assert data.class_names == expected.class_names
        assert data.templates == ("{} texture.",)
    trees.aircraft_published(tmp_path)
    assert open_source(tmp_path / "fgvc-aircraft-2013b" / "data", strict=False).name == "fgvc_aircraft"


def test_importing_data_sets_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, cosmic_tta.data.datasets, cosmic_tta.data.prompts; "
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "pyarrow", "typer", "rich"} & set(done.stdout.split())
