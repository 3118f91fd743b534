from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import ImageError, PackError
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.features.extraction.resume import PartialPack
from tests.support.paths import ROOT
from tests.support.small_extraction import CLASSES, Stopping, contents, data, run
from tests.support.tiny import TinyEncoder


def test_a_drive_that_goes_away_costs_no_image(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=30)
    run(dataset, tmp_path / "whole")

    class Unplugged(TinyEncoder):
        def encode(self, pixels: Any) -> Any:
            if len(self.batches) == 5:
                (tmp_path / "in").rename(tmp_path / "gone")
            return super().encode(pixels)

    with pytest.raises(ImageError, match="32 successive images cannot be read.*drive.*tries these images again"):
        run(dataset, tmp_path / "out", clip=Unplugged())
    (tmp_path / "gone").rename(tmp_path / "in")
    done = run(dataset, tmp_path / "out")
    assert done.failed == {}
    assert 0 < done.resumed < 30
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_strict_ends_at_the_first_failure_and_goes_on_once_it_is_mended(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    damaged = tmp_path / "in/dog/0010.jpg"
    whole = damaged.read_bytes()
    damaged.write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"0010.jpg: is not an image"):
        run(dataset, tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()
    damaged.write_bytes(whole)
    done = run(dataset, tmp_path / "out", strict=True)
    assert done.resumed == 10
    run(dataset, tmp_path / "again")
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_no_image_is_encoded_twice(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    run(dataset, tmp_path / "whole")
    batches = 0
    for stop in (0, 3, 1, 5):
        encoder = Stopping(stop)
        with pytest.raises(KeyboardInterrupt):
            run(dataset, tmp_path / "out", clip=encoder)
        batches += len(encoder.batches)
    last = TinyEncoder()
    done = run(dataset, tmp_path / "out", clip=last)
    assert done.resumed == 18
    assert batches + len(last.batches) == 14  # chunks of two images, one batch each
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_damage_to_a_partial_run_is_noticed(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    run(dataset, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "out", clip=Stopping(6))
    partial_folder = tmp_path / "out.partial"
    stored = np.load(partial_folder / "clip.npy", mmap_mode="r+")
    stored[3, 0, 0] += 1  # in the second chunk
    stored.flush()
    del stored
    with open(partial_folder / "journal.jsonl", "a", encoding="utf-8") as journal:
        journal.write('{"chunk": 7, "first": 14, "en')  # a line that was cut short
    done = run(dataset, tmp_path / "out")
    assert done.resumed == 10
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")

    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "other", clip=Stopping(6))
    (tmp_path / "other.partial/clip.npy").write_bytes(b"")
    with pytest.raises(PackError, match=r"missing or damaged; remove .*other.partial"):
        run(dataset, tmp_path / "other")
    (tmp_path / "other.partial/plan.json").write_text("{")
    with pytest.raises(PackError, match="damaged; remove"):
        run(dataset, tmp_path / "other")


def test_a_run_that_another_version_began_is_refused_by_its_format(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "out", clip=Stopping(2))
    plan = tmp_path / "out.partial/plan.json"
    written = json.loads(plan.read_text())
    assert written["format"] == 2
    before = contents(tmp_path / "out.partial")
    without_number = {"pictures": 27} | written["settings"]
    for content, found in ((without_number, 1), (written | {"format": 3}, 3)):
        plan.write_text(json.dumps(content))
        with pytest.raises(PackError, match=rf"plan.json' has format {found}; this version reads format 2. Remove "):
            run(dataset, tmp_path / "out")
    plan.write_bytes(before["plan.json"])
    assert contents(tmp_path / "out.partial") == before
    assert run(dataset, tmp_path / "out").resumed > 0


def test_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "out", clip=Stopping(2))
    for other, name in (
        ({"views": RandomViews(2)}, "views"),
        ({"batch": 16}, "batch"),
        ({"clip": TinyEncoder(8, 18)}, "clip"),
        ({"texts": [["x"], ["y"], ["z"]]}, "texts"),
        ({"store": "float16"}, "store"),
        ({"max_pixels": 10_000_000}, "max_pixels"),
        ({"aux": None}, "aux"),
    ):
        with pytest.raises(PackError, match=f"had other settings .*{name}.*run it with the same ones"):
            run(dataset, tmp_path / "out", **other)
    relabelled = tuple(Item(item.key, 2, item.read) for item in dataset.items)
    with pytest.raises(PackError, match="keys and labels"):
        run(Dataset("small", "test", CLASSES, relabelled), tmp_path / "out")
    (tmp_path / "in/owl/9999.jpg").write_bytes((tmp_path / "in/owl/0020.jpg").read_bytes())
    with pytest.raises(PackError, match="images, keys and labels"):
        run(data(tmp_path / "in"), tmp_path / "out")


def test_a_pack_that_is_there_is_left_alone(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    run(dataset, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(PackError, match="there already"):
        run(dataset, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    assert not (tmp_path / "out.partial").exists()


def test_two_runs_at_once_are_kept_apart(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)

    class Nested(TinyEncoder):
        def encode(self, pixels: Any) -> Any:
            with pytest.raises(PackError, match="being written by another run"):
                run(dataset, tmp_path / "out")
            return super().encode(pixels)

    run(dataset, tmp_path / "out", clip=Nested())


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.support.small_extraction import data, run
from tests.support.tiny import TinyEncoder

class Slow(TinyEncoder):
    def encode(self, pixels):
        time.sleep(0.01)
        return super().encode(pixels)

if __name__ == "__main__":
    run(data(Path({source!r})), Path({out!r}), clip=Slow(), workers=2)
"""


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=100)
    run(dataset, tmp_path / "whole")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(ROOT), source=str(tmp_path / "in"), out=str(tmp_path / "out")))
    journal = tmp_path / "out.partial/journal.jsonl"
    chance = random.Random(0)
    for target in sorted(chance.sample(range(5, 130), 3)):
        process = subprocess.Popen([sys.executable, str(script)])
        while process.poll() is None and _lines(journal) < target:
            time.sleep(0.002)
        assert process.poll() is None, "it was done before it could be killed"
        workers = _children(process.pid)
        assert len(workers) >= 2
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(map(_alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(_alive, workers))
    assert not (tmp_path / "out").exists()
    done = run(dataset, tmp_path / "out")
    assert 0 < done.resumed < 300
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def _lines(file: Path) -> int:
    return file.read_text().count("{") // 2 if file.exists() else 0


def _children(parent: int) -> Sequence[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    if not listed.exists():
        pytest.skip("this system does not list a process's children")
    return [int(number) for number in listed.read_text().split()]


def _alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.support.small_extraction import data, run

def end_at(step):
    calls = 0
    def end(event, details):
        nonlocal calls
        if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir") and "out" in str(details[0]):
            calls += 1
            if calls == step:
                os._exit(9)
    sys.addaudithook(end)

dataset = data(Path({source!r}))
for step in range(1, 200):
    child = os.fork()
    if not child:
        end_at(step)
        run(dataset, Path({source!r}).with_name("out" + str(step)))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_it_may_end_at_any_step(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=1)
    (tmp_path / "in/cat/0000.jpg").write_bytes(b"")
    run(dataset, tmp_path / "whole")
    script = KILLED.format(tests=str(ROOT), source=str(tmp_path / "in"))
    subprocess.run([sys.executable, "-c", script], check=True)
    steps = {file.name.split(".")[0] for file in tmp_path.iterdir()} - {"in", "whole"}
    assert len(steps) > 15
    for name in steps:
        out = tmp_path / name
        if not out.exists() or out.with_name(f"{name}.partial").exists():
            assert run(dataset, out).images == 2
        assert contents(out) == contents(tmp_path / "whole")
    assert {file.name for file in tmp_path.iterdir()} == steps | {"in", "whole"}


def test_images_that_all_failed_are_looked_at_again(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=1)
    files = [Path(str(item.read())) for item in dataset.items]
    whole = [file.read_bytes() for file in files]
    for file in files:
        file.write_bytes(b"")
    with pytest.raises(ImageError, match="none of 3"):
        run(dataset, tmp_path / "out")
    for file, content in zip(files, whole, strict=True):
        file.write_bytes(content)
    assert run(dataset, tmp_path / "out").images == 3


def test_a_full_disk_is_an_error_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = data(tmp_path / "in", each=2)
    run(dataset, tmp_path / "whole")
    fsync, left = os.fsync, [8]

    def full(number: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run(dataset, tmp_path / "out")
    monkeypatch.undo()
    assert run(dataset, tmp_path / "out").resumed > 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    with PartialPack.open(tmp_path / "new", {}, {"clip": (2, 1, 4)}, "float32") as opened:
        # To write to mapped memory that no disk stands behind is no error: it ends the process.
        assert not opened.arrays["clip"].flags.writeable


def test_what_is_left_out_comes_in_order(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    for name in ("cat/0002", "cat/0004"):
        (tmp_path / f"in/{name}.jpg").write_bytes(b"")
    run(dataset, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "out", clip=Stopping(6))
    stored = np.load(tmp_path / "out.partial/clip.npy", mmap_mode="r+")
    stored[3, 0, 0] += 1  # in the chunk of the first one
    stored.flush()
    del stored
    run(dataset, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
