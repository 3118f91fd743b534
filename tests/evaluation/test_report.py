from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import Cosmic, ZeroShot
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.jobs import run_job
from cosmic_tta.evaluation.report import Report, as_rows, from_json, machine, merge, software
from cosmic_tta.features.pack import FeaturePack

pytestmark = pytest.mark.pathless


def small_report(**fields: object) -> Report:
    report = Report("pack", "tda", "default", {}, "shuffle", "given", 0, 9, {"acc1": 0.5}, 1.0, 2.0, {}, {})
    return replace(report, **fields)  # type: ignore[arg-type]


def test_reports_go_to_json_and_back(pack: FeaturePack) -> None:
    reports = [
        run_evaluation(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)
    ]
    assert from_json(json.dumps(as_rows(reports))) == reports
    assert reports[2].params["shots"] == 4
    assert reports[2].software["numpy"] == np.__version__
    for text in ("{", "[{}]", "3"):
        with pytest.raises(InputError, match="no list of reports"):
            from_json(text)


def test_the_note_and_the_counted_steps_may_be_absent() -> None:
    (row,) = as_rows([small_report()])
    del row["note"], row["counted"]
    (read,) = from_json(json.dumps([row]))
    assert (read.counted, read.note) == (None, "")
    with pytest.raises(InputError, match="must have the fields"):
        from_json(json.dumps([row | {"colour": "red"}]))


def test_reports_of_several_machines_merge(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    reports = {job.digest: run_job(job).report for job in jobs}
    here, there = dict(list(reports.items())[:4]), dict(list(reports.items())[2:])
    slower = {digest: replace(report, ms_per_sample=9.0) for digest, report in there.items()}
    merged = merge(here, slower)
    assert list(merged) == list(reports)
    assert merged == slower | here
    digest = jobs[1].digest
    with pytest.raises(InputError, match="contradict each other"):
        merge(reports, {digest: replace(reports[digest], metrics=reports[digest].metrics | {"acc1": 0.123})})


def test_the_title_names_the_preset_and_the_changed_parameters() -> None:
    assert small_report().title == "tda"
    assert small_report(params={"shots": 7}).title == "tda shots=7"
    assert small_report(preset="default+guard").title == "tda@default+guard"
    weights = Cosmic.presets["official"]["weights"]
    assert (
        small_report(method="cosmic", preset="official", params={"weights": list(weights)}).title == "cosmic@official"
    )
    assert small_report(method="elsewhere", params={"a": 1}).title == "elsewhere"


def test_software_and_machine_are_plain_values() -> None:
    assert set(software()) == {"python", "path", "cosmic-tta", "numpy"}
    assert set(machine()) == {"system", "processor", "cores"}
    assert json.loads(json.dumps([software(), machine()])) == [software(), machine()]
