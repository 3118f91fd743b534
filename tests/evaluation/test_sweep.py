"""Sweeps: finished jobs are skipped, damaged results are made again, a failed job stops no other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation import jobs as jobs_module
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.jobs import Job, open_pack, run_job, stored_report
from cosmic_tta.evaluation.report import Report, from_json
from cosmic_tta.evaluation.sweep import THREADS, Engine, _one_thread, sweep
from cosmic_tta.features.synthetic import superclass_pack
from tests.support.paths import ROOT
from tests.support.small_grid import GRID

pytestmark = pytest.mark.pathless

EXAMPLE = ROOT / "examples" / "grid.toml"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def test_the_example_grid_runs_on_processes_and_a_second_sweep_skips_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert "0 run now, 96 were there before" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in made} == made


def test_worker_processes_give_the_same_metrics_as_this_process(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    here = sweep(jobs, folder / "here", workers=0).reports
    there = sweep(jobs, folder / "there", workers=1).reports
    assert [report.metrics for report in here] == [report.metrics for report in there]
    assert [report.metrics for report in here] == [run_job(job).report.metrics for job in jobs]


def test_truncated_and_swapped_results_are_made_again(folder: Path) -> None:
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


def test_samples_are_written_and_damaged_ones_are_made_again(folder: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()[:2]
    runs = folder / "runs"
    sweep(jobs, runs, workers=0)
    assert sweep(jobs, runs, workers=0, samples=True).skipped == 0  # reports alone were there
    with np.load(runs / f"{jobs[0].digest}.npz") as arrays:
        assert arrays["scores"].shape == (30, 20)
    (runs / f"{jobs[0].digest}.npz").write_bytes(b"half")
    assert sweep(jobs, runs, workers=0, samples=True).skipped == 1


def test_a_failing_job_stops_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()
    real = jobs_module.run_job

    def fail_on_third(job: Job) -> object:
        if job == jobs[2]:
            raise RuntimeError("the disk is broken")
        return real(job)

    monkeypatch.setattr(jobs_module, "run_job", fail_on_third)
    done = sweep(jobs, folder / "runs", workers=0)
    assert len(done.reports) == len(jobs) - 1
    ((job, reason),) = done.failures
    assert job == jobs[2]
    assert "disk is broken" in reason
    monkeypatch.undo()
    again = sweep(jobs, folder / "runs", workers=0)
    assert (again.skipped, again.failures) == (len(jobs) - 1, [])


def test_a_pack_that_disappears_is_reported_as_a_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        "from cosmic_tta.evaluation import jobs\n"
        "from cosmic_tta.evaluation.grid import read_grid\n"
        "from cosmic_tta.evaluation.sweep import sweep\n"
        "class ExitsWhenUnpickled(str):\n"
        "    def __reduce__(self):\n"
        "        return os._exit, (9,)\n"
        "if __name__ == '__main__':\n"
        "    all_jobs = read_grid(Path(sys.argv[1]) / 'grid.toml').jobs()[:3]\n"
        "    bad = jobs.Job('tda', (), ExitsWhenUnpickled(all_jobs[0].pack), seed=77)\n"
        "    done = sweep([all_jobs[0], bad, *all_jobs[1:]], Path(sys.argv[1]) / 'runs', workers=1)\n"
        "    print(len(done.reports), len(done.failures), done.failures[0][1])\n"
    )
    finished = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("3 1 its process ended with code 9")
    assert all(stored_report(job, folder / "runs") for job in jobs)


def test_an_interrupted_sweep_keeps_whole_results(folder: Path) -> None:
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
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command to continue" in errors
    done = {file.name for file in runs.glob("*.json")}
    assert 2 <= len(done) < 20
    assert not list(runs.glob(".*"))
    jobs = read_grid(folder / "grid.toml").jobs()
    assert {f"{job.digest}.json" for job in jobs if stored_report(job, runs)} == done  # all of them whole


def test_two_results_of_one_job_count_once_and_must_agree(folder: Path, tmp_path: Path) -> None:
    jobs = read_grid(folder / "grid.toml").jobs()[:3]
    reports = {job: run_job(job).report for job in jobs}

    def answer_twice(changed: Report) -> Engine:
        return lambda todo, *_: iter([*((job, reports[job]) for job in todo), (jobs[0], changed)])

    slower = replace(reports[jobs[0]], ms_per_sample=9.0)
    assert sweep(jobs, tmp_path, engine=answer_twice(slower)).reports == list(reports.values())
    wrong = replace(slower, metrics=slower.metrics | {"acc1": 0.123})
    with pytest.raises(InputError, match="contradict each other"):
        sweep(jobs, tmp_path, engine=answer_twice(wrong))


def test_workers_use_one_thread_each() -> None:
    before = dict(os.environ)
    with _one_thread():
        assert all(os.environ[name] == "1" for name in THREADS)
    assert dict(os.environ) == before


def test_an_empty_result_folder_is_used(folder: Path) -> None:
    (folder / "runs").mkdir()
    assert run("sweep", str(folder / "grid.toml"), "--out", str(folder / "runs"), "--workers", "0") == 0
    one = next((folder / "runs").glob("*.json"))
    assert len(from_json(one.read_text())) == 1
    assert json.loads(one.read_text())[0]["pack"] == "generated-20"
