"""Sweeps on Ray write the same reports as local sweeps, even if workers and the driver are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.features.synthetic import superclass_pack
from tests.support.ray_processes import descendants, workers

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]

GRID = """
packs = ["pack"]
methods = ["zero_shot", "tda", "cosmic"]
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
limit = 300
[params.cosmic]
aux_shots = [2, 4]
"""
TIMED = ("ms_per_sample",)
JOBS = 4 * 16


def command(folder: Path, out: str, *more: str) -> list[str]:
    words = ["sweep", str(folder / "grid.toml"), "--out", str(folder / out), "--samples", "--workers", "2", *more]
    return [sys.executable, "-m", "cosmic_tta", *words]


def untimed_reports(folder: Path) -> dict[str, Any]:
    """Return the reports of a run folder without their times."""
    reports = {}
    for file in folder.glob("*.json"):
        (report,) = json.loads(file.read_text())
        reports[file.name] = {name: value for name, value in report.items() if name not in TIMED}
    return reports


def test_a_sweep_equals_the_local_one_even_if_a_worker_and_then_the_driver_are_killed(tmp_path: Path) -> None:
    superclass_pack(3, images=300, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text(GRID)
    subprocess.run(command(tmp_path, "local"), check=True, capture_output=True)
    folder = tmp_path / "ray"
    on_ray = command(tmp_path, "ray", "--engine", "ray")
    driver = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    killed = False
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and driver.poll() is None:
        done = len(list(folder.glob("*.json")))
        if done >= 3 and not killed and (busy := workers(driver.pid, "_run_in_worker")):
            os.kill(busy[0], signal.SIGKILL)
            killed = True
            done_at_kill = done
        if killed and done >= done_at_kill + 6:
            break
        time.sleep(0.02)
    assert killed
    assert driver.poll() is None, driver.communicate()[0].decode()
    processes = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    before = len(list(folder.glob("*.json")))
    assert 9 <= before < JOBS
    again = subprocess.run(on_ray, check=True, capture_output=True, text=True)
    assert f"{JOBS} of {JOBS} runs" in again.stdout
    assert f"{before} were there before" in again.stdout
    assert len(untimed_reports(folder)) == JOBS
    assert untimed_reports(folder) == untimed_reports(tmp_path / "local")
    for file in (tmp_path / "local").glob("*.npz"):
        with np.load(file) as one, np.load(folder / file.name) as other:
            assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)
    wait_for_end(processes)


def wait_for_end(processes: list[int]) -> None:
    """Wait for the end of a cluster of one machine. It ends with its driver, even with one that is killed."""
    deadline = time.monotonic() + 150
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < deadline, "processes of Ray continue after their driver"
        time.sleep(0.2)
