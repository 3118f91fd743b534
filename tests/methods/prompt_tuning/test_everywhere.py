"""Methods that learn take part in everything: sweeps, streams of fewer classes, tables of the paper, predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.classifier import Classifier
from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.jobs import Job, run_job
from cosmic_tta.evaluation.run_folder import read_runs
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import subset
from cosmic_tta.features.text_towers import attach_task_tower, attach_tower
from cosmic_tta.reporting.paper import ExperimentContext, run_experiment
from cosmic_tta.reporting.paper import benchmarks as benchmarks_module
from cosmic_tta.reporting.paper import context as context_module
from cosmic_tta.sessions.session import Session
from cosmic_tta.training import checkpoint_file
from cosmic_tta.training.trainer import TrainingConfig, draw_shots, train_to_end
from tests.support.tiny import image

pytestmark = [pytest.mark.torch, pytest.mark.pathless]
pytest.importorskip("torch")

GRID = """
packs = ["stream"]
methods = ["zero_shot", "tpt", "coop"]
orders = ["shuffle", "open-set"]
checkpoints = ["coop.safetensors"]
limit = 6
"""


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def whole() -> FeaturePack:
    pack = shifted_pack(Corruption("pixelation", 4), 160)
    near = np.roll(pack.clip, 1, axis=2)  # a second view that differs a little
    views = np.concatenate([pack.clip, pack.clip + 0.1 * near], axis=1)
    return replace(pack, clip=views / np.linalg.norm(views, axis=2, keepdims=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, whole: FeaturePack) -> Path:
    """A stream, other photographs as a support, and what two methods learned from them."""
    here = tmp_path_factory.mktemp("learning")
    subset(whole, slice(0, 40), "stream").write(here / "stream")
    support = subset(whole, slice(40, None), "support")
    support.write(here / "support")
    task = attach_tower(support, device="cpu").task()
    for name, course in (("coop", TrainingConfig(epochs=1)), ("tip_adapter_f", TrainingConfig(epochs=1))):
        checkpoint_file.write(here / f"{name}.safetensors", train_to_end(name, task, support.support(), course))
    each = train_to_end("coop", task, support.support(), TrainingConfig(epochs=1, class_specific=True))
    checkpoint_file.write(here / "each.safetensors", each)
    (here / "grid.toml").write_text(GRID)
    return here


def test_a_session_refuses_what_was_trained_before_it_makes_a_folder(folder: Path, tmp_path: Path) -> None:
    method = make_method("coop", checkpoint=checkpoint_file.read(folder / "coop.safetensors"))
    with pytest.raises(InputError, match="coop has a trained checkpoint, which a session does not keep"):
        Session.create(tmp_path / "s", "s", attach_tower(FeaturePack.open(folder / "stream")).task(), method)
    assert not (tmp_path / "s").exists()


def test_a_sweep_attaches_towers_and_checkpoints_in_its_workers(folder: Path) -> None:
    out = folder / "runs"
    assert run("sweep", str(folder / "grid.toml"), "--out", str(out), "--workers", "1") == 0
    found = [report for file in out.glob("*.json") for report in json.loads(file.read_text())]
    reports = {(report["method"], report["order"]): report for report in found}
    assert len(reports) == 6
    jobs = {(job.spec, job.order): job for job in read_grid(folder / "grid.toml").jobs()}
    for key in (("tpt", "open-set"), ("coop", "shuffle")):
        assert reports[key]["metrics"]["acc1"] == run_job(jobs[key]).report.metrics["acc1"]  # here as there


def test_a_digest_follows_the_checkpoint_and_nothing_else_changes(folder: Path) -> None:
    job = Job("coop", (), str(folder / "stream"), checkpoint=str(folder / "coop.safetensors"))
    copy = folder / "copy.safetensors"
    copy.write_bytes((folder / "coop.safetensors").read_bytes())
    assert replace(job, checkpoint=str(copy)).digest == job.digest
    assert replace(job, checkpoint=str(folder / "each.safetensors")).digest != job.digest
    assert replace(job, tower="mini:clip").digest != job.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('["coop.safetensors"]', '["tip_adapter_f.safetensors"]'), "was trained for tip_adapter_f"),
        (('["coop.safetensors"]', '["each.safetensors"]'), "one context per class of its own"),
        (('["coop.safetensors"]', '["coop.safetensors", "each.safetensors"]'), "two checkpoints are of coop"),
        (('checkpoints = ["coop.safetensors"]', ""), "cosmic train coop"),
        (('["stream"]', '["support"]'), "trained on labels of the pack 'support' itself"),
        (("limit", 'tower = "minni:clip"\nlimit'), "did you mean 'mini'"),
        (("limit", "tower = 3\nlimit"), "tower must be one name"),
    ],
)
def test_a_grid_of_methods_that_learn_is_checked_first(
    folder: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "wrong.toml"
    file.write_text(GRID.replace(*change, 1))
    assert run("sweep", str(file), "--out", str(folder / "none"), "--workers", "0") == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (folder / "none").exists()


def test_a_stream_of_fewer_classes_has_a_tower_of_fewer(whole: FeaturePack) -> None:
    pack = attach_tower(whole, device="cpu")
    found = run_evaluation(make_method("tpt"), pack, order="open-set", limit=5, calibrate=False)
    assert found.scores.shape[1] < len(pack.class_names)
    assert pack.tower is not None
    fewer = pack.tower.with_classes(pack.class_names[:3])
    context = pack.tower.opening("a photo of a")
    np.testing.assert_allclose(fewer.texts(context), pack.tower.texts(context)[:3], atol=1e-6)
    assert fewer.fingerprint == pack.tower.fingerprint


def test_nothing_is_judged_on_its_own_shots(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--method", "coop", "--checkpoint", str(folder / "coop.safetensors"))
    assert run("eval", str(folder / "support"), *words) == 2
    assert "trained on labels of the pack 'support' itself" in " ".join(capsys.readouterr().err.split())
    assert run("eval", str(folder / "stream"), *words, "--limit", "3") == 0


def test_a_run_folder_holds_them(folder: Path, tmp_path: Path) -> None:
    words = ("--method", "tpt,coop", "--checkpoint", str(folder / "coop.safetensors"), "--limit", "5")
    assert run("eval", str(folder / "stream"), *words, "--save", str(tmp_path / "run")) == 0
    saved = read_runs(tmp_path / "run")
    assert [one.report.method for one in saved] == ["tpt", "coop"]
    assert all(one.report.ms_per_sample > 0 and one.report.state_mb > 0 for one in saved)


def test_a_classifier_takes_what_was_trained(folder: Path, tmp_path: Path) -> None:
    image(3).save(tmp_path / "a.png")
    file, out = folder / "coop.safetensors", tmp_path / "out.json"
    words = ("--classes", "cat,dog,ship", "--method", "coop", "--checkpoint", str(file), "--json", str(out))
    assert run("predict", str(tmp_path / "a.png"), *words) == 0
    (told,) = json.loads(out.read_text())
    method = make_method("coop", checkpoint=checkpoint_file.read(file))
    (first, *_) = Classifier(["cat", "dog", "ship"], method=method)(tmp_path / "a.png")
    assert told["answers"][0]["label"] == first["label"]


def test_tpt_asked_twice_answers_the_same_whatever_came_between() -> None:
    classify = Classifier(["cat", "dog", "ship"], aux=None, method="tpt", views=4)
    first = classify(image(1))
    classify(image(2))
    assert classify(image(1)) == first
    assert attach_task_tower(replace(classify.task, tower=None)).tower is not None


def test_rows_of_the_paper_run_where_they_can(
    folder: Path, whole: FeaturePack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, support = FeaturePack.open(folder / "stream"), FeaturePack.open(folder / "support")
    learned = {"coop": checkpoint_file.read(folder / "coop.safetensors")}
    context = ExperimentContext((stream,), (0,), 5, support=support, checkpoints=learned, excluded=("cosmic",))
    outcome = run_experiment("table-ood", context)
    table = next(table for table in outcome.tables if "stream" in table.name)
    ours = {row[1]: row[2] for row in table.rows}
    assert all(ours[title] for title in ("CLIP", "CoOp", "Tip-Adapter", "TPT"))
    assert not any(ours[title] for title in ("CoCoOp", "Tip-Adapter-F", "DiffTPT", "COSMIC, our default"))
    told = " ".join(outcome.missing)
    assert "CoCoOp: cocoop needs a checkpoint" in told
    assert "DiffTPT: needs views from a diffusion model" in told
    assert "COSMIC, our default: left out." in told
    # Without packs, shots come from photographs that the stream leaves out.
    monkeypatch.setattr(benchmarks_module, "embedded_views", lambda: stream)
    monkeypatch.setattr(context_module, "embedded_shots", lambda: draw_shots(support.support(), 2, 0))
    lesson = {name: checkpoint_file.read(folder / f"{name}.safetensors") for name in ("coop", "tip_adapter_f")}
    monkeypatch.setattr(context_module, "embedded_checkpoint", lesson.get)
    provenance = {"generated views": {"folder": "mini:diffusion", "count": 1}}
    monkeypatch.setattr(context_module, "embedded_with_generated_views", lambda: replace(stream, provenance=provenance))
    without = ("cocoop", "tda", "dmn", "cosmic", "bayes_means")
    outcome = run_experiment("table-cd", ExperimentContext(seeds=(0,), limit=5, excluded=without))
    ours = {row[1]: row[2] for row in outcome.tables[0].rows}
    assert all(ours[title] for title in ("CLIP", "CoOp", "Tip-Adapter", "Tip-Adapter-F", "TPT", "DiffTPT"))
    assert any("the other 400" in note for note in outcome.notes)


def test_one_view_is_too_few_for_tpt_and_a_drawn_one_serves_difftpt(whole: FeaturePack) -> None:
    context = ExperimentContext((whole,), (0,), 5)
    plain = replace(whole, clip=whole.clip[:, :1])
    assert "cosmic extract --views 64" in context.why_not_runnable("tpt", plain)
    assert "draw-views" in context.why_not_runnable("difftpt", whole)
    drawn_pack = replace(whole, provenance={"generated views": {"folder": "x", "count": 1}})
    assert context.why_not_runnable("difftpt", drawn_pack) == ""
    method, _ = context.prepare("difftpt", drawn_pack)
    assert method.generated == 1  # type: ignore[attr-defined]
    assert "names no model" in context.why_not_runnable("tpt", replace(whole, clip_model="mini:"))
    with pytest.raises(InputError, match="few-shot"):
        context.prepare("tip_adapter", whole)
