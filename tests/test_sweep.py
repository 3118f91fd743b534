"""Sweeps: what is done is skipped, what is damaged is redone, what fails costs only itself."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import jobs as jobs_module
from cosmic_tta.cli import main
from cosmic_tta.errors import CosmicError, InputError
from cosmic_tta.grid import read_grid
from cosmic_tta.jobs import Job, fingerprint, open_pack, run_job, stored
from cosmic_tta.oracle import ORACLE_GRID, oracle_fusion, oracle_surface, weighted_hits
from cosmic_tta.packs import FeaturePack
from cosmic_tta.report import Report, from_json, merge
from cosmic_tta.sweep import Engine, sweep
from cosmic_tta.synthetic import superclass_pack

pytestmark = pytest.mark.pathless

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "grid.toml"
GRID = """
packs = ["pack"]
methods = ["zero_shot", "tda", "cosmic"]
seeds = [0, 1]
limit = 30
[params.cosmic]
aux_shots = [2, 4]
"""


@pytest.fixture
def folder(tmp_path: Path, pack: FeaturePack) -> Path:
    open_pack.cache_clear()
    fingerprint.cache_clear()
    pack.write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def test_a_grid_crosses_everything_once(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    assert len(jobs) == (1 + 1 + 2) * 2
    assert len({job.digest for job in jobs}) == len(jobs)
    assert {dict(job.parameters).get("aux_shots") for job in jobs if job.spec == "cosmic"} == {2, 4}


def test_in_the_given_order_seeds_make_no_difference(folder: Path) -> None:
    text = GRID.replace("seeds", 'orders = ["given", "shuffle"]\naux = ["given", "random"]\nseeds')
    (folder / "grid.toml").write_text(text)
    jobs = [job for job in read_grid(folder / "grid.toml").jobs() if job.spec == "tda"]
    counts = {(job.order, job.aux): 0 for job in jobs}
    for job in jobs:
        counts[job.order, job.aux] += 1
    assert counts == {("given", "given"): 1, ("given", "random"): 2, ("shuffle", "given"): 2, ("shuffle", "random"): 2}


def test_the_example_runs_on_processes_and_again_in_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(EXAMPLE, tmp_path / "grid.toml")
    superclass_pack(images=60, dim=16, aux_dim=16, views=2).write(tmp_path / "generated")
    words = ("sweep", str(tmp_path / "grid.toml"), "--json", str(tmp_path / "all.json"))
    assert run(*words, "--workers", "2") == 0
    reports = from_json((tmp_path / "all.json").read_text())
    assert len(reports) == (1 + 1 + 2 + 4) * 2 * 2 * 3
    assert {tuple(report.params["weights"]) for report in reports if report.preset == "official"} == {
        (1, 1, 1),
        (1, 0.1, 3),
    }
    made = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs-grid").glob("*.json")}
    assert len(made) == len(reports)
    capsys.readouterr()
    assert run(*words, "--workers", "0") == 0
    assert "0 made now, 96 were done before" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in made} == made


def test_the_same_on_processes_and_in_this_one(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    here = sweep(jobs, folder / "here", workers=0).reports
    there = sweep(jobs, folder / "there", workers=1).reports
    assert [report.metrics for report in here] == [report.metrics for report in there]
    assert [report.metrics for report in here] == [run_job(job).metrics for job in jobs]


def test_half_written_and_foreign_files_are_made_anew(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    runs = folder / "runs"
    before = sweep(jobs, runs, workers=0).reports
    first, second, third = (runs / f"{job.digest}.json" for job in jobs[:3])
    first.write_text(first.read_text()[:100])
    second.write_text("")
    shutil.copy(runs / f"{jobs[3].digest}.json", third)  # another job's
    again = sweep(jobs, runs, workers=0)
    assert again.skipped == len(jobs) - 3
    assert [report.metrics for report in again.reports] == [report.metrics for report in before]
    assert not list(runs.glob(".*"))


def test_samples_are_kept_and_damaged_ones_noticed(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()[:2]
    runs = folder / "runs"
    sweep(jobs, runs, workers=0)
    assert sweep(jobs, runs, workers=0, samples=True).skipped == 0  # reports alone were there
    with np.load(runs / f"{jobs[0].digest}.npz") as arrays:
        assert arrays["scores"].shape == (30, 20)
    (runs / f"{jobs[0].digest}.npz").write_bytes(b"half")
    assert sweep(jobs, runs, workers=0, samples=True).skipped == 1


def test_a_failing_job_costs_only_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    real = jobs_module.replay

    def broken(job: Job) -> object:
        if job == jobs[2]:
            raise RuntimeError("the disk is full of sand")
        return real(job)

    monkeypatch.setattr(jobs_module, "replay", broken)
    done = sweep(jobs, folder / "runs", workers=0)
    assert len(done.reports) == len(jobs) - 1
    ((job, reason),) = done.failures
    assert job == jobs[2]
    assert "sand" in reason
    monkeypatch.undo()
    again = sweep(jobs, folder / "runs", workers=0)
    assert (again.skipped, again.failures) == (len(jobs) - 1, [])


def test_a_pack_that_goes_away_is_told_at_the_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The workers open packs by themselves, and one of two has gone by then."""
    open_pack(str(folder / "pack"))
    second = replace(open_pack(str(folder / "pack")), name="second")
    second.write(folder / "second")
    (folder / "grid.toml").write_text(GRID.replace('["pack"]', '["pack", "second"]'))
    jobs = read_grid(folder / "grid.toml").jobs()
    shutil.rmtree(folder / "second")
    done = sweep(jobs, folder / "runs", workers=2)
    assert len(done.reports) == len(done.failures) == len(jobs) // 2
    assert all("no pack at" in reason for _, reason in done.failures)


def test_a_process_that_dies_is_replaced(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()[:3]
    script = folder / "die.py"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from cosmic_tta import jobs\n"
        "from cosmic_tta.grid import read_grid\n"
        "from cosmic_tta.sweep import sweep\n"
        "class Deadly(str):\n"
        "    def __reduce__(self):\n"
        "        return os._exit, (9,)\n"
        "if __name__ == '__main__':\n"
        "    all_jobs = read_grid(Path(sys.argv[1]) / 'grid.toml').jobs()[:3]\n"
        "    bad = jobs.Job('tda', (), Deadly(all_jobs[0].pack), seed=77)\n"
        "    done = sweep([all_jobs[0], bad, *all_jobs[1:]], Path(sys.argv[1]) / 'runs', workers=1)\n"
        "    print(len(done.reports), len(done.failures), done.failures[0][1])\n"
    )
    told = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("3 1 its process ended with code 9")
    assert all(stored(job, folder / "runs") for job in jobs)


def test_stopped_in_the_middle_it_goes_on(folder: Path) -> None:
    superclass_pack(images=4000, dim=64, aux_dim=64, views=8).write(folder / "large")
    grid = f'packs = ["large"]\nmethods = ["cosmic@paper"]\nseeds = {list(range(20))}\n'
    (folder / "grid.toml").write_text(grid)
    runs = folder / "runs"
    words = [sys.executable, "-m", "cosmic_tta", "sweep", str(folder / "grid.toml"), "--out", str(runs)]
    process = subprocess.Popen(
        [*words, "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it for what runs behind them
    )
    deadline = time.monotonic() + 60
    while len(list(runs.glob("*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "goes on from there" in told
    done = {file.name for file in runs.glob("*.json")}
    assert 2 <= len(done) < 20
    assert not list(runs.glob(".*"))
    jobs = read_grid(folder / "grid.toml").jobs()
    assert {f"{job.digest}.json" for job in jobs if stored(job, runs)} == done  # all of them whole


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
def test_a_grid_that_cannot_be_run_is_told_before_any_work(
    folder: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert change[0] in GRID
    (folder / "grid.toml").write_text(GRID.replace(*change, 1))
    assert run("sweep", str(folder / "grid.toml"), "--out", str(folder / "runs")) == 2
    told = capsys.readouterr().err
    assert words in told.replace("\n", " ")
    assert "grid.toml" in told or "--" in told or "must be" in told
    assert not list(folder.glob("runs/*"))


def test_a_digest_names_contents_not_places(folder: Path) -> None:
    job = read_grid(folder / "grid.toml").jobs()[0]
    shutil.copytree(folder / "pack", folder / "copy")
    assert replace(job, pack=str(folder / "copy")).digest == job.digest
    assert replace(job, seed=9).digest != job.digest
    assert replace(job, spec="tda").digest != job.digest
    changed = np.load(folder / "copy" / "labels.npy")
    np.save(folder / "copy" / "labels.npy", changed[::-1])
    open_pack.cache_clear()
    fingerprint.cache_clear()
    assert replace(job, pack=str(folder / "copy")).digest != job.digest
    assert pickle.loads(pickle.dumps(job)) == job


def test_reports_of_several_machines_merge(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    reports = {job.digest: run_job(job) for job in jobs}
    here, there = dict(list(reports.items())[:4]), dict(list(reports.items())[2:])
    slower = {digest: replace(report, ms_per_sample=9.0) for digest, report in there.items()}
    merged = merge(here, slower)
    assert list(merged) == list(reports)
    assert merged == slower | here
    digest = jobs[1].digest
    with pytest.raises(InputError, match="contradict each other"):
        merge(reports, {digest: replace(reports[digest], metrics=reports[digest].metrics | {"acc1": 0.123})})


def test_a_job_that_an_engine_answers_twice_counts_once_and_must_agree(folder: Path, tmp_path: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()[:3]
    reports = {job: run_job(job) for job in jobs}

    def twice(changed: Report) -> Engine:
        return lambda todo, *_: iter([*((job, reports[job]) for job in todo), (jobs[0], changed)])

    slower = replace(reports[jobs[0]], ms_per_sample=9.0)
    assert sweep(jobs, tmp_path, engine=twice(slower)).reports == list(reports.values())
    wrong = replace(slower, metrics=slower.metrics | {"acc1": 0.123})
    with pytest.raises(InputError, match="contradict each other"):
        sweep(jobs, tmp_path, engine=twice(wrong))


def test_an_oracle_is_at_least_as_good_as_what_it_searches(pack: FeaturePack) -> None:
    from cosmic_tta.evaluate import score
    from cosmic_tta.methods import make_method

    assert pack.labels is not None
    for spec, branches in (("cosmic@official", {"css", "afv"}), ("dmn", {"clip_cache"})):
        done = score(make_method(spec), pack)
        found = oracle_fusion(done, pack.labels)
        assert set(found.oracle_weights) == branches | {"zero_shot"}
        assert found.oracle_acc1 >= max(done.report.metrics["acc1"], done.report.metrics["zero_shot_acc1"])
        weights = {name: found.oracle_weights[name] for name in branches}
        assert weighted_hits(done.parts, weights, pack.labels[done.order]) == found.oracle_acc1
    with pytest.raises(CosmicError, match="no branches"):
        oracle_fusion(score(make_method("zero_shot"), pack), pack.labels)


def test_the_oracle_is_the_published_one(shared: Path) -> None:
    """With the published program's own branches, the search gives the figures measured with it."""
    for name, wanted in (("whurs19-rn50", 93.57), ("whurs19-vitb32", 90.05)):
        labels = FeaturePack.open(shared / "packs" / name).labels
        assert labels is not None
        golden = np.load(shared / "golden" / f"cosmic_{name}.npz")
        found = []
        for seed in range(3):
            parts = {key: golden[f"seed{seed}_{short}"] for key, short in (("zero_shot", "zs"), ("css", "css"))}
            parts["afv"] = golden[f"seed{seed}_afv"]
            true = labels[golden[f"seed{seed}_order"]]
            tried = [weighted_hits(parts, {"css": b, "afv": c}, true) for b in ORACLE_GRID for c in ORACLE_GRID]
            found.append(max(tried))
        assert round(100 * float(np.mean(found)), 2) == wanted


def test_the_surface_equals_trying_every_weight() -> None:
    rng = np.random.default_rng(0)
    parts = {name: rng.random((50, 6)).astype(np.float32) for name in ("zero_shot", "css", "afv")}
    parts["css"] *= rng.random((50, 6)) < 0.5
    parts["afv"] *= rng.random((50, 6)) < 0.5
    true = rng.integers(6, size=50)
    weights = np.linspace(0, 10, 41)
    surface = oracle_surface(parts, true, weights, weights)
    double = {name: part.astype(np.float64) for name, part in parts.items()}
    for row, css in enumerate(weights):
        for column, afv in enumerate(weights):
            scores = double["zero_shot"] + css * double["css"] + afv * double["afv"]
            assert surface[row, column] == (scores.argmax(axis=1) == true).mean()


def test_workers_use_one_thread_each() -> None:
    from cosmic_tta.sweep import THREADS, _one_thread

    before = dict(os.environ)
    with _one_thread():
        assert all(os.environ[name] == "1" for name in THREADS)
    assert dict(os.environ) == before


def test_an_empty_folder_of_runs_is_no_obstacle(folder: Path) -> None:
    (folder / "runs").mkdir()
    assert run("sweep", str(folder / "grid.toml"), "--out", str(folder / "runs"), "--workers", "0") == 0
    one = next((folder / "runs").glob("*.json"))
    assert len(from_json(one.read_text())) == 1
    assert json.loads(one.read_text())[0]["pack"] == "generated-20"
