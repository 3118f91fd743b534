from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.cli import main
from cosmic_tta.corruptions import Corruption
from cosmic_tta.demo import shifted_pack
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import score
from cosmic_tta.originals import picture_of
from cosmic_tta.packs import FeaturePack
from cosmic_tta.portraits import portraits
from cosmic_tta.portraits.answers import reliability
from cosmic_tta.portraits.fusion import GRID, surface, used_weights
from cosmic_tta.runs import Recorder, RunFolder, SavedRun, read_runs

pytestmark = pytest.mark.pathless


def saved(folder: Path, pack: FeaturePack, *specs: str) -> Path:
    writing = RunFolder.begin(folder)
    for spec in specs:
        seen = Recorder()
        writing.add(score(make_method(spec), pack, watch=seen), seen)
    writing.finish()
    return folder


@pytest.fixture(scope="module")
def folder(pack: FeaturePack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("runs") / "run", pack, "zero_shot", "tda", "dmn", "cosmic", "bayes_means")


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[SavedRun]:
    return read_runs(folder)


def test_a_run_comes_back_as_it_was(runs: list[SavedRun], pack: FeaturePack) -> None:
    explained = []
    run = score(make_method("cosmic"), pack, watch=lambda step: explained.append(step.prediction.why.inliers))
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
    assert np.array_equal(back.changed, changed)
    for row, step in enumerate(changed):
        for space, mask in back.inliers.items():
            assert tuple(np.array(pack.class_names)[mask[row]]) == explained[step][space]


def test_memories_are_those_of_the_last_state(runs: list[SavedRun], pack: FeaturePack) -> None:
    steps: list[Any] = []
    score(make_method("cosmic"), pack, watch=steps.append)
    state = steps[-1].state
    (back,) = [one for one in runs if one.report.method == "cosmic"]
    assert [memory.name for memory in back.memories] == ["css", "afv"]
    for memory, space in zip(back.memories, (state.css, state.afv), strict=True):
        cache = space.memory.cache
        assert np.array_equal(memory.slots, cache.slots[cache.filled()])
        assert np.array_equal(np.bincount(memory.classes, minlength=len(pack.class_names)), cache.count)
        assert [clique.tolist() for clique in memory.cliques] == [
            space.hyper.members(k).tolist() for k in range(len(space.hyper))
        ]
    names = {run.report.method: [memory.name for memory in run.memories] for run in runs}
    assert names["tda"] == ["positive", "negative"]
    assert names["dmn"] == ["memory"]
    assert names["zero_shot"] == []


def test_a_folder_that_was_not_written_to_its_end_is_refused(folder: Path, tmp_path: Path) -> None:
    def spoiled(name: str) -> Path:
        return Path(shutil.copytree(folder, tmp_path / name))

    unfinished, shorter, missing, later = (spoiled(name) for name in ("a", "b", "c", "d"))
    (unfinished / "run.json").unlink()
    with open(shorter / "run-002.npz", "r+b") as file:
        file.truncate(100)
    (missing / "run-001.npz").unlink()
    head = json.loads((later / "run.json").read_text(encoding="utf-8"))
    (later / "run.json").write_text(json.dumps(head | {"format": 2}), encoding="utf-8")
    (tmp_path / "e").mkdir()
    for place, message in (
        (unfinished, "not written to its end"),
        (shorter, "run-002.npz.* is missing or not as long"),
        (missing, "run-001.npz.* is missing or not as long"),
        (later, "format 2; this version reads format 1"),
        (tmp_path / "e", "is no run folder"),
        (tmp_path / "f", "no run at"),
    ):
        with pytest.raises(InputError, match=message):
            read_runs(place)


def test_a_file_of_the_right_size_and_wrong_content_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "a"))
    size = (copy / "run-000.npz").stat().st_size
    (copy / "run-000.npz").write_bytes(b"x" * size)
    with pytest.raises(InputError, match="damaged"):
        read_runs(copy)


def test_a_folder_in_use_is_not_written_to(folder: Path) -> None:
    with pytest.raises(InputError, match="is not empty"):
        RunFolder.begin(folder)


def test_every_part_of_the_portrait_is_drawn(runs: list[SavedRun]) -> None:
    found = {outcome.name: outcome for outcome in portraits(runs)}
    assert list(found) == ["results", "answers", "fusion", "spaces", "cases"]
    kinds = {name: [chart.kind for chart in outcome.charts] for name, outcome in found.items()}
    assert kinds["results"] == ["lines"]
    assert kinds["answers"] == ["heat", "lines", "bars"]
    assert kinds["fusion"] == ["heat"]
    assert kinds["spaces"] == ["network"] * 2 + ["points"] * 4
    assert "oracle" in found["fusion"].title
    assert all("oracle" in chart.title for chart in found["fusion"].charts)
    names = [chart.name for outcome in found.values() for chart in outcome.charts]
    assert len(names) == len(set(names))


def test_a_pack_without_labels_has_answers_and_no_accuracy(pack: FeaturePack, tmp_path: Path) -> None:
    blind = FeaturePack(pack.name, pack.class_names, pack.clip, pack.text, pack.aux)
    outcomes = portraits(read_runs(saved(tmp_path / "run", blind, "cosmic")))
    assert [outcome.name for outcome in outcomes] == ["results", "spaces", "cases"]
    assert not outcomes[0].charts
    assert all(row[1] == "–" for row in outcomes[-1].tables[0].rows)


def test_the_surface_is_the_accuracy_of_the_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.random((50, 4), np.float32) for _ in range(3)]
    labels = rng.integers(4, size=50)
    cells = surface(parts, labels)
    row, column = 7, 30
    fused = parts[0] + GRID[column] * parts[1] + GRID[row] * parts[2]
    assert cells[row, column] == pytest.approx(100 * (fused.argmax(axis=1) == labels).mean())


def test_weights_in_use_are_found_from_the_scores(pack: FeaturePack, tmp_path: Path) -> None:
    writing, seen = RunFolder.begin(tmp_path / "run"), Recorder()
    method = make_method("cosmic@paper", weights=(1.0, 3.0, 0.5))
    writing.add(score(method, pack, watch=seen), seen)
    writing.finish()
    assert used_weights(read_runs(tmp_path / "run")[0]) == pytest.approx((3.0, 0.5), rel=1e-2)


def test_reliability_by_hand() -> None:
    sure = np.array([0.1] * 20 + [0.95] * 20 + [0.5] * 3, np.float32)
    hits = np.array([True] * 10 + [False] * 10 + [True] * 20 + [False] * 3)
    x, y, words = reliability(sure, hits)
    assert x == pytest.approx([10, 95])
    assert y == pytest.approx([50, 100])
    assert "20 images" in words[0]


def test_pictures_at_hand_are_those_that_were_encoded() -> None:
    shift = Corruption("haze", 4)
    pack = shifted_pack(shift, 3)
    picture = picture_of(pack, 2)
    assert picture is not None
    assert picture.shape == (32, 32, 3)
    plain = FeaturePack("a", pack.class_names, pack.clip, pack.text, keys=pack.keys, source=pack.source)
    original = picture_of(plain, 2)
    assert original is not None
    assert not np.array_equal(picture, original)
    assert picture_of(FeaturePack("a", pack.class_names, pack.clip, pack.text, keys=pack.keys), 2) is None


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
        (["report", ".", "--formats=bmp"], "unknown picture format 'bmp'"),
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
