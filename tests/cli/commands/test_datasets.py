from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import trees
from tests.support.command import run


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("datasets") == 0
    told = capsys.readouterr().out
    assert "fgvc_aircraft" in told
    assert "imagenet-adversarial" in told
    assert "cosmic datasets check ROOT" in told


def test_the_tables_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("datasets", "--table") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {words[0]: words[1:5] for words in reversed(lines) if words}
    assert rows["Caltech101"] == ["100", "4,128", "1,649", "2,465"]
    assert rows["ImageNet"] == ["1,000", "1.28M", "–", "50,000"]
    assert ["DTD", '"{}', 'texture."'] in lines


def test_the_list_for_machines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("datasets", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 15
    food = next(row for row in rows if row["name"] == "food101")
    assert food["sizes"] == {"train": 50500, "val": 20200, "test": 30300}
    assert food["layouts"][1]["sizes"]["test"] == 25250
    assert run("datasets", "--table", "--json", str(tmp_path / "out.json")) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == rows


def test_a_check_says_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.dtd(tmp_path)
    (tmp_path / "eurosat").mkdir()
    assert run("datasets", "check", str(tmp_path)) == 2
    told = capsys.readouterr()
    assert "dtd: DTD, split test: found 6 images of 3 classes, expected 1,692 of 47" in told.err
    assert "eurosat: EuroSAT in " in told.err
    assert "Missing: split_zhou_EuroSAT.json, 2750" in told.err
    assert "sun397: not here (sun397)" in told.out
    assert run("datasets", "check", str(tmp_path), "DTD", "--partial") == 0
    assert capsys.readouterr().out == "dtd: ok (train, val, test)\n"


def test_a_check_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.imagenet(tmp_path)
    trees.sun(tmp_path)
    assert run("datasets", "check", str(tmp_path), "--json") == 2
    results = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert results["ucf101"] == {"name": "ucf101", "state": "absent", "splits": [], "problems": {}}
    assert results["imagenet"]["splits"] == ["train", "test"]
    assert "found 4 images of 4 classes" in results["imagenet"]["problems"]["test"]
    assert run("datasets", "check", str(tmp_path), "sun", "imagenet", "--partial", "--json") == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["ok", "ok"]


def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("datasets", "check", str(tmp_path / "nowhere")) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert run("datasets", "check", str(tmp_path), "dttd") == 2
    assert "did you mean 'dtd'" in capsys.readouterr().err
    assert run("datasets", "check", str(tmp_path), "dtd") == 2
    assert "DTD is not in" in capsys.readouterr().err
    assert run("datasets", "check", str(tmp_path)) == 0
