"""An extraction on Ray writes the same bytes as a local one, even if workers and the driver are killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cosmic_tta.core.errors import InputError
from tests.support.paths import SUPPORT
from tests.support.ray_processes import descendants, workers
from tests.support.small_extraction import contents
from tests.support.tiny import class_folders

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]

CLASSES = ("airplane", "bird", "cat", "ship")


def command(root: Path, out: Path, *more: str) -> list[str]:
    words = ["extract", str(root), "--clip", "mini:clip", "--aux", "mini:dino", "--out", str(out), "--views", "8"]
    return [sys.executable, "-m", "cosmic_tta", *words, "--batch", "16", "--workers", "2", *more]


def test_the_pack_equals_the_local_one_even_if_a_worker_and_then_the_driver_are_killed(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "images", CLASSES, 60)
    (root / CLASSES[1] / "broken.jpg").write_bytes(b"no image")
    local, remote = tmp_path / "local" / "pack", tmp_path / "ray" / "pack"
    subprocess.run(command(root, local), check=True, capture_output=True)
    on_ray = command(root, remote, "--engine", "ray")
    driver = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    journal = remote.with_name("pack.partial") / "journal.jsonl"
    done_at_kill = None
    deadline = time.monotonic() + 120
    while driver.poll() is None and time.monotonic() < deadline:
        done = journal.read_text().count("\n") if journal.exists() else 0
        if done_at_kill is None and done >= 20 and (busy := workers(driver.pid, "EncodingActor")):
            os.kill(busy[0], signal.SIGKILL)
            done_at_kill = done
        if done_at_kill is not None and done >= done_at_kill + 20:
            break
        time.sleep(0.01)
    assert done_at_kill is not None
    assert driver.poll() is None, driver.communicate()[0].decode()
    driver.kill()
    driver.communicate()
    assert not remote.exists()
    again = subprocess.run(on_ray, check=True, capture_output=True, text=True)
    assert "images had been encoded before" in again.stdout
    assert "Traceback" not in again.stderr
    assert contents(remote) == contents(local)


def test_killed_decoders_and_encoders_do_not_change_the_pack(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "images", CLASSES, 45)
    local, remote = tmp_path / "local" / "pack", tmp_path / "ray" / "pack"
    subprocess.run(command(root, local), check=True, capture_output=True)
    driver = subprocess.Popen(
        command(root, remote, "--engine", "ray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    killed: list[str] = []
    targets = ("(EncodingActor)", "::MapBatches(decode_chunk)") * 2
    journal = remote.with_name("pack.partial") / "journal.jsonl"
    while driver.poll() is None:
        done = journal.read_text().count("\n") if journal.exists() else 0
        target = targets[len(killed)] if len(killed) < len(targets) and done >= 12 * (len(killed) + 1) else None
        if target is not None and (busy := workers(driver.pid, target)):
            os.kill(busy[-1], signal.SIGKILL)
            killed.append(target)
        time.sleep(0.005)
    output = driver.communicate()[0]
    assert driver.returncode == 0, output
    assert tuple(killed) == targets
    assert contents(remote) == contents(local)


def test_an_interrupt_ends_all_processes_and_keeps_finished_work(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "images", CLASSES, 45)
    out = tmp_path / "out" / "pack"
    driver = subprocess.Popen(
        command(root, out, "--engine", "ray"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    journal = out.with_name("pack.partial") / "journal.jsonl"
    while driver.poll() is None and (not journal.exists() or journal.read_text().count("\n") < 5):
        time.sleep(0.01)
    started = descendants(driver.pid)
    driver.terminate()  # handled like SIGINT, which a parent process may have disabled
    output = driver.communicate(timeout=60)[0]
    assert driver.returncode == 130, output
    assert "run the same command to continue" in output.replace("\n", " ")
    assert "Traceback" not in output
    assert started
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{process}").exists() for process in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_lasting_fault_ends_with_one_sentence_and_decoders_wait_for_encoders(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "images", CLASSES, 20)
    script = SUPPORT / "ray_faults.py"
    run = [sys.executable, str(script), str(root), str(tmp_path)]
    result = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    died = "EncoderError: 4 workers died while they tried to"
    assert result["an encoder dies"].startswith(f"{died} encode chunk 0. The memory may be full")
    assert result["an encoder dies at its start"].startswith(f"{died} load the encoders. The memory may be full")
    assert result["a decoder dies"].startswith(f"{died} decode chunk 0. The memory may be full")
    assert result["a decoder fails"] == "EncoderError: a worker cannot encode: ZeroDivisionError('a fault')."
    assert result["an encoder fails"].startswith("EncoderError: a worker cannot encode: ZeroDivisionError(")
    assert result["other weights"].startswith("EncoderError: mini:dino: the weights of a worker differ")
    assert result["chunks"] == 40
    assert result["ahead"] <= 12
    assert 0 < result["waited"] < 60


def test_a_row_keeps_a_value_and_its_arrays() -> None:
    from cosmic_tta.distributed.extraction import _from_row, _to_row

    arrays: dict[str, NDArray[Any]] = {
        "clip": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "aux": np.ones((2, 0), np.float32),
    }
    number, found, missing = _from_row(_to_row((7, arrays, None)))
    assert (number, missing) == (7, None)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("gpus", [0, 1, 4])
@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("encoders", [1, 2, 3, 7, 40])
def test_any_number_of_encoders_fits_into_the_cluster(
    monkeypatch: pytest.MonkeyPatch, encoders: int, cores: int, gpus: int
) -> None:
    from cosmic_tta.distributed import extraction

    monkeypatch.setattr(extraction, "cluster_cores", lambda: cores)
    monkeypatch.setattr(extraction, "cluster_gpus", lambda: gpus)
    decoder, encoder = extraction._worker_resources("auto", encoders)
    units, need = (gpus, encoder.gpus) if gpus else (cores, encoder.cores)
    per_unit = math.ceil(encoders / units)
    assert need > 0
    assert per_unit * need <= 1
    assert per_unit * encoder.cores + decoder.cores <= 1, "no core is left for a decoder"
    assert decoder != encoder
    assert extraction._default_encoders("auto") == (gpus or cores)
    assert extraction._default_encoders("cpu") == cores
    if not gpus:
        with pytest.raises(InputError, match="no machine of the cluster has a GPU"):
            extraction._default_encoders("cuda")
