from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.jobs import Job, fingerprint, open_pack, run_and_store
from cosmic_tta.evaluation.report import Report
from cosmic_tta.features.pack import FeaturePack
from tests.support.command import run

FEW = ("--methods", "zero_shot,tda", "--streams", "shuffle,open-set", "--seeds", "0", "--workers", "0")


@pytest.fixture
def packs(tmp_path: Path, pack: FeaturePack) -> Path:
    open_pack.cache_clear()
    fingerprint.cache_clear()
    replace(pack, name="one").write(tmp_path / "packs" / "one")
    renamed = tuple(f"my {name}" for name in pack.class_names)
    replace(pack, name="two", aux=None, class_names=renamed).write(tmp_path / "packs" / "two")
    return tmp_path / "packs"


def test_a_benchmark_writes_its_files_and_continues(
    packs: Path, pack: FeaturePack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(pack, name="bare", labels=None).write(packs / "bare")
    out = tmp_path / "out"
    words = ("benchmark", str(packs), *FEW, "--limit", "60", "--out", str(out))
    assert run(*words) == 0
    told = capsys.readouterr()
    assert "| tda | " in told.out
    assert "12 of 12 runs: 12 run now, 0 were there before." in told.out
    assert "The pack 'bare' is left out" in told.err
    rows = list(csv.DictReader((out / "results.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 12
    assert {(row["pack"], row["aux"]) for row in rows} == {("one", "given"), ("one", "none"), ("two", "none")}
    text = (out / "results.md").read_text(encoding="utf-8")
    assert f"- Command: cosmic benchmark {packs} --methods zero_shot,tda --streams shuffle,open-set --seeds 0" in text
    assert "packs one, two." in text
    assert "**open-set**" in text

    results = sorted((out / "runs").glob("*.json"))
    results[0].write_text(results[0].read_text()[:100])
    results[1].unlink()
    assert run(*words) == 0
    told = capsys.readouterr()
    assert "12 of 12 runs: 2 run now, 10 were there before." in told.out
    assert "damaged or half-written results in" in told.err
    assert ": 1; their runs are made again." in told.err


def test_parameters_are_chosen_by_leaving_one_data_set_out(
    packs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--methods", "tda", "--streams", "shuffle", "--seeds", "0", "--workers", "0", "--leave-one-out")
    code = run("benchmark", str(packs), *words, "--set", "shots=1,5", "--limit", "60", "--out", str(tmp_path / "out"))
    told = capsys.readouterr().out
    assert code == 0
    assert "| left out | chosen on the others | gain | gain of the default | difference |" in told
    assert "| one | tda" in told
    assert "| tda shots=5 |" in told
    assert "--set shots=1,5" in (tmp_path / "out" / "results.md").read_text(encoding="utf-8")


def test_without_results_of_the_default_nothing_is_chosen_and_the_tables_are_shown(
    packs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_default(job: Job, folder: Path, *, samples: bool = False) -> Report:
        if not job.parameters:
            raise InputError("on purpose")
        return run_and_store(job, folder, samples=samples)

    monkeypatch.setattr(sys.modules["cosmic_tta.evaluation.sweep"], "run_and_store", fail_default)
    words = ("--methods", "tda", "--streams", "shuffle", "--seeds", "0", "--workers", "0", "--leave-one-out")
    assert run("benchmark", str(packs), *words, "--set", "shots=1,5", "--out", str(tmp_path / "out")) == 1
    told = capsys.readouterr()
    assert "--leave-one-out: leaving one data set out compares tda with" in told.err
    assert "| tda shots=5 |" in told.out
    assert "left out | chosen" not in told.out


def test_a_failed_run_is_named_and_the_others_are_shown(
    packs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "fails.py"
    plugin.write_text("""
from dataclasses import dataclass
from typing import ClassVar

from cosmic_tta import Method, State, register_method


@register_method
@dataclass(frozen=True)
class FailsInBenchmark(Method[State]):
    "Fails at its first step."

    name: ClassVar[str] = "fails_in_benchmark"

    def _init(self, task):
        return State(task, seen=0)

    def _predict(self, state, sample, *, learn):
        raise ZeroDivisionError("on purpose")
""")
    words = ["--methods", "zero_shot,fails_in_benchmark", "--streams", "shuffle", "--seeds", "0", "--workers", "0"]
    out = tmp_path / "out"
    assert run("benchmark", str(packs / "two"), "--include", str(plugin), *words, "--out", str(out)) == 1
    told = capsys.readouterr()
    assert "fails_in_benchmark on two, shuffle, aux none, seed 0: ZeroDivisionError: on purpose" in told.err
    assert "| zero_shot | +0.00 |" in told.out
    assert f"--include {plugin}" in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "no folder at 'nowhere'; give a pack, or a folder that holds packs"),
        ((".",), "no packs found in '.'"),
        ((), "no packs found in '.'"),
        (("PACKS", "--methods", "cosmik"), "unknown method 'cosmik': did you mean 'cosmic'"),
        (("PACKS", "--methods", "tip_adapter"), "tip_adapter needs a support"),
        (("PACKS", "--streams", "shufle"), "did you mean 'shuffle'"),
        (("PACKS", "--aux", "gven"), "did you mean 'given'"),
        (("PACKS", "--seeds", "a"), "--seeds takes whole numbers"),
        (("PACKS", "--workers", "-1"), "--workers must be 0 or more"),
        (("PACKS", "--set", "shots"), "--set takes key=value"),
        (("PACKS", "--set", "shotz=1"), "unknown parameter of"),
        (("PACKS", "--set", "shots=1", "--set", "shots=2"), "--set sets shots twice; give its values in one"),
        (("PACKS", "--leave-one-out"), "--leave-one-out chooses the parameters of one method"),
        (("PACKS/one", "--leave-one-out", "--methods", "tda", "--set", "shots=1"), "at least two data sets; given one"),
        (("PACKS", "--out", "file"), "--out must be a folder; 'file' is a file"),
    ],
)
def test_wrong_input_ends_with_one_sentence(
    packs: Path, tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "file").write_text("")
    monkeypatch.chdir(tmp_path / "empty")
    assert run("benchmark", *(word.replace("PACKS", str(packs)) for word in words)) == 2
    told = capsys.readouterr().err
    assert said in " ".join(told.split())
    assert not (tmp_path / "empty" / "cosmic-benchmark").exists()


def test_both_helps_say_which_command_measures_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "--help") == 0
    assert "cosmic benchmark" in capsys.readouterr().out
    assert run("benchmark", "--help") == 0
    assert "`cosmic bench` measures speed" in " ".join(capsys.readouterr().out.split())
