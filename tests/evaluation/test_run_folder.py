from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder, SavedRun, read_runs
from cosmic_tta.features.pack import FeaturePack

pytestmark = pytest.mark.pathless


def saved(folder: Path, pack: FeaturePack, *specs: str) -> Path:
    writing = RunFolder.begin(folder)
    for spec in specs:
        recorder = RunRecorder()
        writing.add(run_evaluation(make_method(spec), pack, watch=recorder), recorder)
    writing.finish()
    return folder


@pytest.fixture(scope="module")
def folder(pack: FeaturePack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("runs") / "run", pack, "zero_shot", "tda", "dmn", "cosmic", "bayes_means")


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[SavedRun]:
    return read_runs(folder)


def test_a_run_is_read_back_unchanged(runs: list[SavedRun], pack: FeaturePack) -> None:
    explained = []
    run = run_evaluation(make_method("cosmic"), pack, watch=lambda step: explained.append(step.prediction.why.inliers))
    (back,) = [one for one in runs if one.report.method == "cosmic"]
    assert np.array_equal(back.scores, run.scores)
    assert np.array_equal(back.order, run.order)
    assert {name: rows.tobytes() for name, rows in back.parts.items()} == {k: v.tobytes() for k, v in run.parts.items()}
    assert back.labels is not None
    assert pack.labels is not None
    assert np.array_equal(back.labels, pack.labels[run.order])
    assert back.report.metrics == run.report.metrics
    changed = np.flatnonzero(run.scores.argmax(axis=1) != run.parts["zero_shot"].argmax(axis=1))
    assert len(changed)
    assert np.array_equal(back.changed_steps, changed)
    for row, step in enumerate(changed):
        for space, mask in back.inliers.items():
            assert tuple(np.array(pack.class_names)[mask[row]]) == explained[step][space]


def test_memories_are_those_of_the_last_state(runs: list[SavedRun], pack: FeaturePack) -> None:
    steps: list[Any] = []
    run_evaluation(make_method("cosmic"), pack, watch=steps.append)
    state = steps[-1].state
    (back,) = [one for one in runs if one.report.method == "cosmic"]
    assert [memory.name for memory in back.memories] == ["css", "afv"]
    for memory, space in zip(back.memories, (state.css, state.afv), strict=True):
        cache = space.memory.cache
        assert np.array_equal(memory.slots, cache.slots[cache.filled()])
        assert np.array_equal(np.bincount(memory.classes, minlength=len(pack.class_names)), cache.count)
        assert [clique.tolist() for clique in memory.cliques] == [
            space.hyperclasses.members(k).tolist() for k in range(len(space.hyperclasses))
        ]
    names = {run.report.method: [memory.name for memory in run.memories] for run in runs}
    assert names["tda"] == ["positive", "negative"]
    assert names["dmn"] == ["memory"]
    assert names["zero_shot"] == []


def test_an_incomplete_folder_or_another_format_is_refused(folder: Path, tmp_path: Path) -> None:
    def copied(name: str) -> Path:
        return Path(shutil.copytree(folder, tmp_path / name))

    unfinished, shorter, missing, earlier = (copied(name) for name in ("a", "b", "c", "d"))
    (unfinished / "run.json").unlink()
    with open(shorter / "run-002.npz", "r+b") as file:
        file.truncate(100)
    (missing / "run-001.npz").unlink()
    head = json.loads((earlier / "run.json").read_text(encoding="utf-8"))
    (earlier / "run.json").write_text(json.dumps(head | {"format": 1}), encoding="utf-8")
    (tmp_path / "e").mkdir()
    for path, message in (
        (unfinished, "is incomplete"),
        (shorter, "run-002.npz.* is missing, or its size"),
        (missing, "run-001.npz.* is missing, or its size"),
        (earlier, "has format 1; this version reads format 2"),
        (tmp_path / "e", "is no run folder"),
        (tmp_path / "f", "no run at"),
    ):
        with pytest.raises(InputError, match=message):
            read_runs(path)


def test_a_file_of_the_right_size_and_wrong_content_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "a"))
    size = (copy / "run-000.npz").stat().st_size
    (copy / "run-000.npz").write_bytes(b"x" * size)
    with pytest.raises(InputError, match="damaged"):
        read_runs(copy)


def test_a_folder_that_is_not_empty_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="is not empty"):
        RunFolder.begin(folder)


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert isinstance(end.value.code, int)
    return end.value.code


def test_eval_saves_what_report_shows(pack: FeaturePack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack.write(tmp_path / "pack")
    words = [str(tmp_path / "pack"), "--method=zero_shot,cosmic", "--seeds=0,1", f"--save={tmp_path / 'run'}"]
    assert command("eval", *words) == 0
    out, figures = tmp_path / "a.html", tmp_path / "figures"
    given = [str(tmp_path / "run"), f"--out={out}", f"--figures={figures}", "--formats=svg"]
    assert command("report", *given) == 0
    assert f"Report: {out}" in capsys.readouterr().out.replace("\n", "")
    assert "Accuracy over time" in out.read_text(encoding="utf-8")
    endings = [file.suffix for file in figures.iterdir()]
    assert endings.count(".svg") >= 10
    assert endings.count(".tex") == endings.count(".csv") >= 2
    assert command("eval", *words) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "nowhere"], "no run at"),
        (["report", "."], "is no run folder"),
        (["report", ".", "--formats=bmp"], "unknown image format 'bmp'"),
        (["report", ".", "--out=/no/such/place/a.html"], "cannot write"),
    ],
)
def test_wrong_words(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(*words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
