"""Kill `cosmic extract` at random points, resume it, and compare the pack with one of an undisturbed run.

    python tools/kill_extraction.py [--images 2000] [--kills 3] [--seed S]

It makes small models with random weights, and JPEG images of odd sizes; three of them are damaged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.tiny_encoders import save_clip, save_dinov2

CLASSES = ("bridge", "farm", "harbour", "meadow", "river")


def make_images(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = rng.integers(256, size=(6, 8, 3), dtype=np.uint8)
        size = (int(rng.integers(200, 500)), int(rng.integers(200, 400)))
        file = folder / CLASSES[number % len(CLASSES)] / f"{number:05}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file, quality=85)
    for number, data in ((3, b""), (count // 2, b"no image"), (count - 2, b"\xff\xd8\xff")):
        (folder / CLASSES[number % len(CLASSES)] / f"{number:05}.jpg").write_bytes(data)


def command(work: Path, out: Path) -> list[str]:
    models = ["--clip", f"hf:{work / 'clip'}", "--aux", f"hf:{work / 'dino'}"]
    return [sys.executable, "-m", "cosmic_tta", "extract", str(work / "in"), *models, "--views", "4", "--out", str(out)]


def done(out: Path) -> int:
    """Return how many images the journal records."""
    journal = out.with_name(out.name + ".partial") / "journal.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return max((json.loads(line)["end"] for line in lines if line.endswith("}}")), default=0)


def digests(pack: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in sorted(pack.iterdir())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 30)
    points = sorted(random.Random(seed).sample(range(given.images // 20, given.images * 9 // 10), given.kills))
    work = Path(tempfile.mkdtemp(prefix="kill-extraction-"))
    try:
        make_images(work / "in", given.images)
        save_clip(work / "clip")
        save_dinov2(work / "dino")
        subprocess.run(command(work, work / "whole"), check=True)
        for point in points:
            process = subprocess.Popen(command(work, work / "killed"))
            while process.poll() is None and done(work / "killed") < point:
                time.sleep(0.01)
            if process.poll() is not None:
                sys.exit(f"the run ended before it could be killed after {point} images (seed {seed})")
            process.kill()
            process.wait()
            print(f"killed after {done(work / 'killed')} of {given.images} images", flush=True)
        subprocess.run(command(work, work / "killed"), check=True)
        whole, killed = digests(work / "whole"), digests(work / "killed")
        for name in whole:
            print(f"{name:12} {whole[name]} {'the same' if whole[name] == killed.get(name) else 'DIFFERENT'}")
        if whole != killed:
            sys.exit(f"the packs differ (seed {seed})")
        print(f"the pack that was killed {given.kills} times is the same, byte by byte (seed {seed})")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
