"""Extraction on Ray: the pack of one machine, byte by byte, though workers and the driver are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_processes import workers
from small_extraction import contents
from tiny import class_folders

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]

CLASSES = ("airplane", "bird", "cat", "ship")


def command(root: Path, out: Path, *more: str) -> list[str]:
    words = ["extract", str(root), "--clip", "mini:clip", "--aux", "mini:dino", "--out", str(out), "--views", "8"]
    return [sys.executable, "-m", "cosmic_tta", *words, "--batch", "16", "--workers", "2", *more]


def test_the_pack_is_the_local_one_though_a_worker_and_then_the_driver_are_killed(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 150)
    (root / CLASSES[1] / "broken.jpg").write_bytes(b"no picture")
    here, there = tmp_path / "here" / "pack", tmp_path / "there" / "pack"
    subprocess.run(command(root, here), check=True, capture_output=True)
    on_ray = command(root, there, "--engine", "ray")
    driver = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    journal = there.with_name("pack.partial") / "journal.jsonl"
    at = None
    deadline = time.monotonic() + 120
    while driver.poll() is None and time.monotonic() < deadline:
        done = journal.read_text().count("\n") if journal.exists() else 0
        if at is None and done >= 20 and (busy := workers(driver.pid, "Encoding")):
            os.kill(busy[0], signal.SIGKILL)
            at = done
        if at is not None and done >= at + 40:
            break
        time.sleep(0.01)
    assert at is not None
    assert driver.poll() is None, driver.communicate()[0].decode()
    driver.kill()
    driver.communicate()
    assert not there.exists()
    again = subprocess.run(on_ray, check=True, capture_output=True, text=True)
    assert "pictures had been encoded before" in again.stdout
    assert contents(there) == contents(here)


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 100)
    here, there = tmp_path / "here" / "pack", tmp_path / "there" / "pack"
    subprocess.run(command(root, here), check=True, capture_output=True)
    driver = subprocess.Popen(
        command(root, there, "--engine", "ray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    killed = 0
    journal = there.with_name("pack.partial") / "journal.jsonl"
    while driver.poll() is None:
        done = journal.read_text().count("\n") if journal.exists() else 0
        if done >= 20 * (killed + 1) and killed < 2 and (busy := workers(driver.pid, "Encoding")):
            os.kill(busy[killed % len(busy)], signal.SIGKILL)
            killed += 1
        time.sleep(0.01)
    told = driver.communicate()[0]
    assert driver.returncode == 0, told
    assert killed == 2
    assert contents(there) == contents(here)
