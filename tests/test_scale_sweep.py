"""Sweeps on Ray: the same files with the same numbers, whoever dies."""

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
from ray_processes import descendants, workers

from cosmic_tta.synthetic import superclass_pack

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


def timeless(folder: Path) -> dict[str, Any]:
    """The reports of a run folder, but for what no two runs have in common."""
    found = {}
    for file in folder.glob("*.json"):
        (report,) = json.loads(file.read_text())
        found[file.name] = {name: value for name, value in report.items() if name not in TIMED}
    return found


def test_sixty_jobs_equal_the_local_sweep_though_a_worker_and_then_the_driver_are_killed(tmp_path: Path) -> None:
    superclass_pack(3, images=300, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text(GRID)
    subprocess.run(command(tmp_path, "here"), check=True, capture_output=True)
    there = tmp_path / "there"
    on_ray = command(tmp_path, "there", "--engine", "ray")
    driver = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    killed = False
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and driver.poll() is None:
        done = len(list(there.glob("*.json")))
        if done >= 3 and not killed and (busy := workers(driver.pid, "_attempt")):
            os.kill(busy[0], signal.SIGKILL)
            killed = True
            at = done
        if killed and done >= at + 6:
            break
        time.sleep(0.02)
    assert killed
    assert driver.poll() is None, driver.communicate()[0].decode()
    theirs = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    before = len(list(there.glob("*.json")))
    assert 9 <= before < JOBS
    again = subprocess.run(on_ray, check=True, capture_output=True, text=True)
    assert f"{JOBS} of {JOBS} runs" in again.stdout
    assert f"{before} were done before" in again.stdout
    assert len(timeless(there)) == JOBS
    assert timeless(there) == timeless(tmp_path / "here")
    for file in (tmp_path / "here").glob("*.npz"):
        with np.load(file) as one, np.load(there / file.name) as other:
            assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)
    wait_until_gone(theirs)


def wait_until_gone(processes: list[int]) -> None:
    """A cluster of one machine ends with its driver, also with one that is killed."""
    deadline = time.monotonic() + 150
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < deadline, "processes of Ray outlive their driver"
        time.sleep(0.2)
