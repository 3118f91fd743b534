from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.features.pack import FeaturePack
from tests.support.command import run


def test_eval_writes_a_table_reports_and_samples(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, samples = tmp_path / "out.json", tmp_path / "samples.npz"
    words = [
        "--method",
        "cosmic@official",
        "--seed",
        "3",
        "--limit",
        "50",
        "--set",
        "shots=4",
        "--set",
        "weights=1,2,3",
    ]
    assert run("eval", folder, *words, "--json", str(file), "--samples", str(samples)) == 0
    table = capsys.readouterr().out
    assert "cosmic@official" in table
    assert "zero-shot" in table
    (report,) = json.loads(file.read_text())
    assert report["pack"] == "generated-20"
    assert (report["method"], report["preset"], report["order"]) == ("cosmic", "official", "shuffle")
    assert (report["seed"], report["n"]) == (3, 50)
    assert (report["params"]["shots"], report["params"]["weights"]) == (4, [1, 2, 3])
    assert set(report["metrics"]) >= {"acc1", "acc5", "ece", "nll", "macro_acc", "zero_shot_acc1", "gain"}
    assert 0 < report["metrics"]["acc1"] <= 1
    assert report["ms_per_sample"] > 0
    assert report["machine"]["cores"] >= 1
    with np.load(samples) as archive:
        stored = dict(archive)
    np.testing.assert_array_equal(stored["order"], np.random.default_rng(3).permutation(120)[:50])
    assert stored["scores"].shape == (50, 20)
    np.testing.assert_allclose(stored["scores"].sum(axis=1), 1, atol=1e-5)
    parts = {"zero_shot", "clip_cache", "css", "afv", "aux_cache"}
    assert set(stored) == {"order", "scores"} | {f"part_{name}" for name in parts}


def test_eval_runs_every_pack_method_and_seed(folder: str, tmp_path: Path, pack: FeaturePack) -> None:
    replace(pack, name="second", aux=None).write(tmp_path / "second")
    file = tmp_path / "out.json"
    words = ["--method", "zero_shot,tda", "--seeds", "0,1", "--limit", "5", "--json", str(file)]
    assert run("eval", folder, str(tmp_path / "second"), *words, "--samples", str(tmp_path / "s.npz")) == 0
    reports = json.loads(file.read_text())
    assert len(reports) == 8
    assert len({(r["pack"], r["method"], r["seed"]) for r in reports}) == 8
    assert len(list(tmp_path.glob("s.*.npz"))) == 8
    both = ["--method", "tda", "--method", "dmn"]
    assert run("eval", folder, "--order", "given", *both, "--limit", "9", "--json", str(file)) == 0
    assert [report["method"] for report in json.loads(file.read_text())] == ["tda", "dmn"]


def test_eval_shows_a_section_a_stream_then_losses(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    words = ["--method", "tda,dmn", "--order", "given,shuffle,class-sequential,open-set,poisoned:20", "--seeds", "0,1"]
    assert run("eval", folder, *words, "--json", str(file), "--samples", str(tmp_path / "s.npz"), "--details") == 0
    reports = json.loads(file.read_text())
    assert len(reports) == 2 + 4 * 2 * 2  # given has no seeds
    assert len(list(tmp_path.glob("s.generated-20.*.npz"))) == len(reports)
    assert (tmp_path / "s.generated-20.poisoned_20.tda@default.s1.npz").exists()
    shown = capsys.readouterr().out
    parts = ["images, given", "images, shuffle, seeds 0, 1", "AUROC", "against zero-shot", "20 % of the steps poisoned"]
    for part in (*parts, "loss against shuffled", "Brier", "open-set: 5 of 20 classes unknown"):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 130


def test_eval_joins_packs(folder: str, tmp_path: Path, pack: FeaturePack, capsys: pytest.CaptureFixture[str]) -> None:
    replace(pack, name="second").write(tmp_path / "second")
    words = ["--join", "--order", "switching", "--method", "zero_shot", "--json", "-"]
    assert run("eval", folder, str(tmp_path / "second"), *words) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["pack"], report["n"], report["order"]) == ("generated-20 + second", 240, "switching")
    replace(pack, name="third", logit_scale=3.0).write(tmp_path / "third")
    assert run("eval", folder, str(tmp_path / "third"), *words) == 2
    assert "cannot be joined: logit_scale differs (30.0 and 3.0)" in capsys.readouterr().err


def test_eval_without_labels_predicts_and_measures_nothing(
    tmp_path: Path, pack: FeaturePack, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(pack, labels=None).write(tmp_path / "pack")
    words = ["--method", "tda,dmn", "--samples", str(tmp_path / "s.npz")]
    assert run("eval", str(tmp_path / "pack"), *words, "--order", "shuffle,repeated:2,mixed") == 0
    shown = capsys.readouterr().out
    assert shown.count("–") >= 6
    assert "against" not in shown
    assert len(list(tmp_path.glob("s.*.npz"))) == 6
    assert run("eval", str(tmp_path / "pack"), *words, "--order", "shuffle,poisoned") == 2
    assert "the order 'poisoned' needs labels, and pack 'generated-20' has none" in capsys.readouterr().err


def test_eval_takes_a_support_pack(
    folder: str, tmp_path: Path, pack: FeaturePack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pack.labels is not None
    replace(pack, clip=pack.clip[:60], aux=None, labels=pack.labels[:60]).write(tmp_path / "shots")
    words = ["--method", "tip_adapter", "--support", str(tmp_path / "shots"), "--json", "-"]
    assert run("eval", folder, *words) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["metrics"]["gain"] > 0  # half of the stream is in the support, here for the test's sake
    assert run("eval", folder, *words, "--order", "shuffle,open-set") == 2
    assert "tip_adapter: the support has all classes, and the order 'open-set' removes some" in capsys.readouterr().err


def test_what_was_done_is_shown_when_a_later_pack_fails(
    folder: str, tmp_path: Path, pack: FeaturePack, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(pack, name="bad").write(tmp_path / "bad")
    rows = np.load(tmp_path / "bad" / "aux.npy")
    rows[50] = 0
    np.save(tmp_path / "bad" / "aux.npy", rows)
    words = ["--method", "tda", "--json", str(tmp_path / "out.json")]
    assert run("eval", folder, str(tmp_path / "bad"), *words) == 2
    shown = capsys.readouterr()
    assert "image 50: aux has a row of zeros" in shown.err
    assert "generated-20" in shown.out
    assert len(json.loads((tmp_path / "out.json").read_text())) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "no pack at 'nowhere'"),
        (["{}", "--method", "cosmik"], "did you mean 'cosmic'"),
        (["{}", "--method", "cosmic@oficial"], "did you mean 'official'"),
        (["{}", "--method", ","], "--method is empty"),
        (["{}", "--set", "shot=4"], "did you mean 'shots'"),
        (["{}", "--set", "shots"], "--set takes key=value; given 'shots'"),
        (["{}", "--set", "shots=many"], "shots must be a number; given 'many'"),
        (["{}", "--set", "shots=2.5"], "shots must be a whole number; given 2.5"),
        (["{}", "--set", "text_slot=perhaps"], "text_slot must be true or false; given 'perhaps'"),
        (["{}", "--set", "weights=1,x,1"], "weights must be numbers, with commas between"),
        (["{}", "--set", "order=3"], "order must be one of 1, 2; given '3'"),
        (["{}", "--aux", "nil"], "unknown kind of auxiliary features 'nil'"),
        (["{}", "--order", "shufle"], "did you mean 'shuffle'"),
        (["{}", "--order", "shuffle,dirichlet:x"], "takes the concentration, a number from 0.001 to 1000"),
        (["{}", "--order", ","], "--order is empty"),
        (["{}", "--order", "mixed,mixed"], "--order: given twice: mixed"),
        (["{}", "--join"], "to join packs takes at least two; given 1"),
        (["{}", "--seeds", "0,x"], "--seeds takes whole numbers"),
        (["{}", "--seeds", "1,1"], "--seeds: given twice: 1"),
        (["{}", "--seeds", "1", "--seed", "2"], "give --seed or --seeds, not both"),
        (["{}", "--seeds", "1", "--order", "given"], "--seeds has no effect with --order given"),
        (["{}", "--method", "cosmic,cosmic@default"], "methods: given twice: cosmic@default"),
        (["{}", "{}"], "packs: given twice: "),
        (["{}", "--set", "shots=2", "--set", "shots=3"], "--set sets shots twice"),
        (["{}", "--set", "shots=1e9"], "shots must be from 1 to 1e+06"),
        (["{}", "--support", "{}"], "the support is for few-shot methods; bayes_means, cosmic would not use it"),
        (["{}", "--method", "tip_adapter", "--support", "{}"], "the support must not be a pack that is evaluated"),
        (["{}", "--limit", "0"], "the limit must be at least 1"),
        (["{}", "--method", "tip_adapter"], "--support PACK"),
        (["{}", "--limit", "2", "--json", "/nowhere/out.json"], "cannot write '/nowhere/out.json'"),
        (["{}", "--limit", "2", "--samples", "/nowhere/out.npz"], "cannot write '/nowhere/out.npz'"),
    ],
)
def test_bad_input_is_one_clear_sentence(
    folder: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("eval", *(word.format(folder) for word in words)) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1
    assert "Traceback" not in complaint


def test_a_full_disk_is_one_clear_sentence(folder: str) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "cosmic_tta", "eval", folder, "--limit", "5"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
