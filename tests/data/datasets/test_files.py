from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.datasets.files import natural_order, relative_path
from tests.support.trees import image


def test_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    image(tmp_path / "a" / "cat" / "1.jpg")
    (tmp_path / "a" / "cat" / "again").symlink_to(tmp_path / "a" / "cat")
    data = open_source(tmp_path / "a")
    assert [item.key for item in data.items] == ["cat/1.jpg"]


def test_links_add_only_what_is_found_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image(tmp_path / "a" / "cat" / "inner" / "1.jpg")
    image(tmp_path / "a" / "dog" / "2.jpg")
    image(tmp_path / "elsewhere" / "3.jpg")
    (tmp_path / "a" / "cat" / "above").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "cat" / "beside").symlink_to(tmp_path / "a" / "cat" / "inner")
    (tmp_path / "a" / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a" / "cat" / "self").symlink_to("self")
    (tmp_path / "a" / "self").symlink_to("self")
    monkeypatch.chdir(tmp_path)
    for folder in (Path("a"), tmp_path / "a"):
        keys = [item.key for item in open_source(folder).items]
        assert keys == ["cat/inner/1.jpg", "cat/more/3.jpg", "dog/2.jpg"]


@given(st.lists(st.text(alphabet="aB01٢. ", max_size=6), max_size=6), st.randoms())
def test_natural_order_is_an_order(names: list[str], random: Random) -> None:
    shuffled = random.sample(names, len(names))
    assert sorted(names, key=natural_order) == sorted(shuffled, key=natural_order)


@given(st.text(alphabet="ab./\\: -", max_size=12))
def test_no_path_leaves_its_folder(given_path: str) -> None:
    root = Path("/data/set")
    try:
        relative = relative_path(given_path, root)
    except DatasetError:
        return
    assert not relative.startswith("/")
    assert ".." not in relative.split("/")
    assert (root / relative).is_relative_to(root)
