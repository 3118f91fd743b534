from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import CosmicError
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.plan import EvaluationPlan
from tests.support.small_grid import GRID

pytestmark = pytest.mark.pathless


def test_a_grid_file_is_read_as_a_plan(folder: Path) -> None:
    assert read_grid(folder / "grid.toml") == EvaluationPlan(
        packs=(str(folder / "pack"),),
        methods=("zero_shot", "tda", "cosmic"),
        parameters={"zero_shot": {}, "tda": {}, "cosmic": {"aux_shots": (2, 4)}},
        seeds=(0, 1),
        limit=30,
    )


def test_a_grid_crosses_everything_once(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    assert len(jobs) == (1 + 1 + 2) * 2
    assert len({job.digest for job in jobs}) == len(jobs)
    assert {dict(job.parameters).get("aux_shots") for job in jobs if job.spec == "cosmic"} == {2, 4}


def test_one_name_or_one_seed_may_stand_without_a_list(folder: Path) -> None:
    (folder / "grid.toml").write_text('packs = "pack"\nmethods = "tda"\nseeds = 3\n')
    plan = read_grid(folder / "grid.toml")
    assert (plan.packs, plan.methods, plan.seeds) == ((str(folder / "pack"),), ("tda",), (3,))


def test_parameters_of_a_preset_override_those_of_its_method(folder: Path) -> None:
    lines = ['packs = "pack"', 'methods = ["cosmic", "cosmic@official"]']
    lines += ["[params.'cosmic@official']", "shots = 2", "weights = [[1, 1, 1], [1, 0.1, 3]]"]
    lines += ["[params.cosmic]", "shots = [4, 8]", "weights = [1, 2, 3]"]
    (folder / "grid.toml").write_text("\n".join(lines))
    assert read_grid(folder / "grid.toml").parameters == {
        "cosmic": {"shots": (4, 8), "weights": ((1, 2, 3),)},
        "cosmic@official": {"shots": (2,), "weights": ((1, 1, 1), (1, 0.1, 3))},
    }


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"tda"', '"tdaa"'), "did you mean 'tda'"),
        (("aux_shots", "aux_shot"), "did you mean 'aux_shots'"),
        (("[2, 4]", "[2, -4]"), "aux_shots must be from"),
        (("[2, 4]", "[]"), "no values"),
        (('["pack"]', '["park"]'), "no pack at"),
        (('["pack"]', '["pack", "./pack"]'), "given twice"),
        (("seeds", 'orders = ["shufle"]\nseeds'), "did you mean 'shuffle'"),
        (("seeds", 'aux = ["nothing"]\nseeds'), "kind of auxiliary features"),
        (("seeds", "seed"), "did you mean 'seeds'"),
        (("[0, 1]", "[0, -1]"), "seed must be 0 or more"),
        (("[0, 1]", '["a"]'), "whole numbers"),
        (("limit = 30", "limit = 0"), "at least 1"),
        (("[params.cosmic]", "[params.dmn]"), "runs no dmn"),
        (('"tda"', '"tip_adapter"'), "needs labelled training features"),
        (("seeds", 'support = "pack"\nseeds'), "would not use"),
        (("limit = 30", "limit ="), "cannot be read as TOML"),
    ],
)
def test_a_grid_that_cannot_be_run_is_refused_before_any_work(
    folder: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert change[0] in GRID
    (folder / "grid.toml").write_text(GRID.replace(*change, 1))
    assert run("sweep", str(folder / "grid.toml"), "--out", str(folder / "runs")) == 2
    complaint = capsys.readouterr().err
    assert words in complaint.replace("\n", " ")
    assert "grid.toml" in complaint or "--" in complaint or "must be" in complaint
    assert not list(folder.glob("runs/*"))


def test_a_missing_grid_and_a_wrong_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CosmicError, match="no grid at .*absent.toml"):
        read_grid(tmp_path / "absent.toml")
    for line, message in (
        ("packs = 3", "packs must be a list of names, at least one; given 3"),
        ("support = 3", "support must be one name in quotes; given 3"),
        ("limit = 2.5", "limit must be a whole number"),
        ("params = 3", "params takes one table per method"),
    ):
        required = ['methods = "tda"', 'packs = "pack"']
        lines = [line, *(other for other in required if other.split()[0] != line.split()[0])]
        (tmp_path / "grid.toml").write_text("\n".join(lines))
        with pytest.raises(CosmicError, match=message):
            read_grid(tmp_path / "grid.toml")
