from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.data.datasets.embedded import photographs
from tests.support.tiny import image

pytestmark = pytest.mark.pathless

CLASSES = "--classes=cat,dog,ship,frog"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for number, item in enumerate(photographs().items[:24]):
        file = tmp_path / ("first" if number < 12 else "second") / f"{number:02}.png"
        file.parent.mkdir(exist_ok=True)
        data = item.read()
        assert isinstance(data, bytes)
        file.write_bytes(data)
    return tmp_path


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["predict", *map(str, words)])
    assert isinstance(end.value.code, int)
    return end.value.code


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_table_names_every_image(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders / "first", CLASSES, "--top=2") == 0
    shown = capsys.readouterr().out
    assert all(f"{number:02}.png" in shown for number in range(12))
    assert shown.count("ship") > 1


def test_json_lines_csv_and_json_say_the_same(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders / "first", CLASSES, "--format=jsonl", f"--json={folders / 'told.json'}") == 0
    rows = lines(capsys)
    assert rows == json.loads((folders / "told.json").read_text())
    assert run(folders / "first", CLASSES, "--format=csv") == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["path"] for row in table] == [row["path"] for row in rows]
    assert [row["label"] for row in table] == [row["answers"][0]["label"] for row in rows]  # type: ignore[index]
    assert run(folders / "first", CLASSES, "--json") == 0
    assert json.loads(capsys.readouterr().out) == rows


def test_images_of_none_of_the_classes_are_answered_unknown(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders / "first", CLASSES, "--format=jsonl") == 0
    plain = lines(capsys)
    limit = float(np.median([row["unknown"] for row in plain]))
    assert run(folders / "first", CLASSES, "--format=jsonl", f"--unknown={limit}") == 0
    for row, before in zip(lines(capsys), plain, strict=True):
        assert row["unknown"] == before["unknown"]
        first = row["answers"][0]["label"]  # type: ignore[index]
        assert (first == "unknown") == (float(row["unknown"]) > limit)  # type: ignore[arg-type]
    assert run(folders / "first", CLASSES, "--top=2", f"--unknown={limit}") == 0
    assert 0 < capsys.readouterr().out.count("unknown") < len(plain)
    assert run(folders / "first", CLASSES, "--unknown=2") == 2
    assert "unknown must be a number from 0 to 1" in " ".join(capsys.readouterr().err.split())


def test_why_names_hyper_classes_inliers_and_the_images_that_spoke(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folders / "first", CLASSES, "--method=cosmic", "--why") == 0
    told = capsys.readouterr().out
    for words in ("00.png: ", ", because", "css: nearest hyper-classes {", "afv: inlier classes ", "itself 1.00"):
        assert words in told
    assert run(folders / "first", CLASSES, "--method=cosmic", "--why", "--format=jsonl") == 0
    rows = lines(capsys)
    last = rows[-1]["why"]["votes"]["css"]  # type: ignore[index]
    assert {vote["sample"] for vote in last} <= set(range(12))
    assert last[0]["sample"] == 11  # it entered the cache before it was scored
    assert run(folders / "first", CLASSES, "--why", "--format=csv") == 2
    assert "CSV has no room for --why" in capsys.readouterr().err


def test_a_image_that_was_only_looked_at_is_not_named_as_a_voter(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = folders / "state.safetensors"
    assert run(folders / "first", CLASSES, f"--state={state}", "--method=cosmic") == 0
    capsys.readouterr()
    assert run(folders / "second", CLASSES, f"--state={state}", "--method=cosmic", "--no-learn", "--why") == 0
    told = capsys.readouterr().out
    assert "sample " in told.split("because", 1)[1]
    assert "itself" not in told


def test_a_state_carried_over_two_calls_equals_one_call(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders / "first", folders / "second", CLASSES, "--format=jsonl", "--views=2") == 0
    together = lines(capsys)
    apart = []
    for name in ("first", "second"):
        state = f"--state={folders / 'state'}"
        assert run(folders / name, CLASSES, "--format=jsonl", "--views=2", state) == 0
        apart += lines(capsys)
    assert apart == together
    before = (folders / "state").read_bytes()
    assert run(folders / "first", CLASSES, f"--state={folders / 'state'}", "--no-learn") == 0
    assert (folders / "state").read_bytes() == before


def test_patterns_and_a_list_on_standard_input(
    folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(folders / "*" / "0*.png", CLASSES, "--format=jsonl") == 0
    matched = [row["path"] for row in lines(capsys)]
    assert len(matched) == 10
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(str, matched)) + "\n\n"))
    assert run("-", CLASSES, "--format=jsonl") == 0
    assert [row["path"] for row in lines(capsys)] == matched


def test_a_image_that_cannot_be_read_is_passed_over(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = f"--state={folders / 'state'}"
    assert run(folders / "first", CLASSES, "--format=jsonl") == 0
    good = lines(capsys)
    (folders / "first" / "05x.png").write_bytes(b"")
    assert run(folders / "first", folders / "none.png", CLASSES, "--format=jsonl", state) == 0
    told = capsys.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()] == good
    assert "05x.png: is empty" in told.err
    assert "none.png: cannot be read" in told.err
    assert (folders / "state").exists()


def test_other_encoders_and_classes_from_a_file(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "classes.txt").write_text("cat\nship\n")
    words = ["--classes-file", folders / "classes.txt", "--aux=none", "--method=cosmic", "--templates=a {}"]
    assert run(folders / "first", *words) == 0
    assert "dog" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["first"], "name the classes: --classes a,b,c or --classes-file FILE"),
        (["first", "--classes=cat,zebra"], "does not know the word 'zebra'"),
        (["first", "--classes=cat,cat"], "cat"),
        (["first", CLASSES, "--top=0"], "--top must be at least 1"),
        (["first", CLASSES, "--format=xml"], "--format is one of table, jsonl, csv; given 'xml'"),
        (["first", CLASSES, "--method=cosmik"], "did you mean 'cosmic'"),
        (["empty", CLASSES], "there is no image in the folder"),
        (["nothing*.png", CLASSES], "no file matches"),
        (["bad.png", CLASSES], "no image could be read; 1 given"),
        (["first", CLASSES, "--state=bad.png"], "bad.png"),
        (["first", CLASSES, "--state=no/such/folder/state"], "cannot write"),
    ],
)
def test_wrong_words_end_with_one_sentence(
    words: list[str],
    message: str,
    folders: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folders / "empty").mkdir()
    (folders / "bad.png").write_bytes(b"nothing")
    monkeypatch.chdir(folders)
    assert run(*words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert message in told
    assert "Traceback" not in told


def test_a_state_of_other_classes_is_refused_and_kept(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = folders / "state"
    assert run(folders / "first", CLASSES, f"--state={state}") == 0
    before = state.read_bytes()
    assert run(folders / "first", "--classes=cat,dog", f"--state={state}") == 2
    assert "class" in capsys.readouterr().err
    assert state.read_bytes() == before


def test_images_of_any_size(folders: Path) -> None:
    image(1, (333, 111)).save(folders / "large.png")
    assert run(folders / "large.png", CLASSES) == 0
