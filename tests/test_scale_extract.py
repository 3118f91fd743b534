"""Extraction on Ray: the pack of one machine, byte by byte, though workers and the driver are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_processes import descendants, workers
from small_extraction import contents
from tiny import class_folders

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]

CLASSES = ("airplane", "bird", "cat", "ship")


def command(root: Path, out: Path, *more: str) -> list[str]:
    words = ["extract", str(root), "--clip", "mini:clip", "--aux", "mini:dino", "--out", str(out), "--views", "8"]
    return [sys.executable, "-m", "cosmic_tta", *words, "--batch", "16", "--workers", "2", *more]


def test_the_pack_is_the_local_one_though_a_worker_and_then_the_driver_are_killed(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 60)
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
        if at is not None and done >= at + 20:
            break
        time.sleep(0.01)
    assert at is not None
    assert driver.poll() is None, driver.communicate()[0].decode()
    driver.kill()
    driver.communicate()
    assert not there.exists()
    again = subprocess.run(on_ray, check=True, capture_output=True, text=True)
    assert "pictures had been encoded before" in again.stdout
    assert "Traceback" not in again.stderr
    assert contents(there) == contents(here)


def test_readers_and_encoders_that_are_killed_cost_nothing(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 45)
    here, there = tmp_path / "here" / "pack", tmp_path / "there" / "pack"
    subprocess.run(command(root, here), check=True, capture_output=True)
    driver = subprocess.Popen(
        command(root, there, "--engine", "ray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    killed: list[str] = []
    turns = ("(Encoding)", "::MapBatches(read)", "(Encoding)", "::MapBatches(read)")
    journal = there.with_name("pack.partial") / "journal.jsonl"
    while driver.poll() is None:
        done = journal.read_text().count("\n") if journal.exists() else 0
        due = turns[len(killed)] if len(killed) < len(turns) and done >= 12 * (len(killed) + 1) else None
        if due is not None and (busy := workers(driver.pid, due)):
            os.kill(busy[-1], signal.SIGKILL)
            killed.append(due)
        time.sleep(0.005)
    told = driver.communicate()[0]
    assert driver.returncode == 0, told
    assert tuple(killed) == turns
    assert contents(there) == contents(here)


def test_an_interrupt_stops_all_and_keeps_what_is_done(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 45)
    out = tmp_path / "out" / "pack"
    driver = subprocess.Popen(
        command(root, out, "--engine", "ray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    journal = out.with_name("pack.partial") / "journal.jsonl"
    while driver.poll() is None and (not journal.exists() or journal.read_text().count("\n") < 5):
        time.sleep(0.01)
    started = descendants(driver.pid)
    driver.terminate()  # as an interrupt, which those who start us may have had ignored
    told = driver.communicate(timeout=60)[0]
    assert driver.returncode == 130, told
    assert "The same command goes on from there" in told.replace("\n", " ")
    assert "Traceback" not in told
    assert started
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{process}").exists() for process in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_goes_wrong_each_time_ends_in_one_sentence_and_readers_are_held_back(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", CLASSES, 20)
    script = Path(__file__).with_name("ray_misfortunes.py")
    run = [sys.executable, str(script), str(root), str(tmp_path)]
    told = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    again = "EncoderError: workers died again and again when chunk 0 was to be"
    assert told["an encoder dies"].startswith(f"{again} encoded. Perhaps the memory ran out")
    loading = (
        "EncoderError: workers died again and again when the encoders were to be loaded. Perhaps the memory ran out"
    )
    assert told["an encoder dies at its start"].startswith(loading)
    assert told["a reader dies"].startswith(f"{again} read. Perhaps the memory ran out")
    assert told["a reader stumbles"] == "EncoderError: a worker cannot encode: ZeroDivisionError('one over none')."
    assert told["an encoder stumbles"].startswith("EncoderError: a worker cannot encode: ZeroDivisionError(")
    assert told["other weights"].startswith("EncoderError: mini:dino: a worker has other weights than the driver")
    assert told["chunks"] == 40
    assert told["ahead"] <= 12
    assert 0 < told["waited"] < 60
