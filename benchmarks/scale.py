"""What Ray costs: a job, a chunk, a step, a stream, beside the same on one machine without it.

    python benchmarks/scale.py [--cores 2] [--jobs 64] [--steps 200] [--pictures 400]

Figures are of this machine and this moment; docs/scale.md says what is made of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from cosmic_tta.datasets import open_source
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.extract import extract
from cosmic_tta.jobs import Job, open_pack
from cosmic_tta.methods import make_method
from cosmic_tta.prompts import class_texts
from cosmic_tta.scale.cluster import cluster
from cosmic_tta.scale.extracting import OnRay
from cosmic_tta.scale.streaming import DistantSession
from cosmic_tta.scale.sweeping import results, sweep_on_ray
from cosmic_tta.session import Session
from cosmic_tta.sweep import sweep
from cosmic_tta.synthetic import superclass_pack
from cosmic_tta.views import Views

ROUNDS = 3


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def show(what: str, local: float, on_ray: float, unit: str) -> None:
    print(f"{what:<44} {local:>10.2f} {on_ray:>10.2f} {on_ray - local:>+10.2f}  {unit}", flush=True)


def jobs(folder: Path, cores: int, count: int) -> None:
    """Jobs that hardly compute, so that what is left is the engine's; then some that do. The best of some rounds."""
    pack = str(folder / "pack")
    sizes = {"a job that does nothing": ("zero_shot", 1, count), "a job of COSMIC, 100 samples": ("cosmic", 100, 16)}
    for name, (spec, limit, many) in sizes.items():
        took: dict[str, list[float]] = {"local": [], "ray": []}
        for turn in range(ROUNDS):
            some = [Job(spec, (), pack, seed=seed, limit=limit) for seed in range(many)]
            warm = [Job("zero_shot", (), pack, seed=seed, limit=2) for seed in range(2 * cores)]
            sweep_on_ray(warm, folder / f"ray-warm-{spec}-{turn}")
            start = timed(partial(sweep, warm, folder / f"local-warm-{spec}-{turn}", workers=cores))
            local = timed(partial(sweep, some, folder / f"local-{spec}-{turn}", workers=cores)) - start
            took["local"].append(max(local, 0.0))
            took["ray"].append(timed(partial(sweep_on_ray, some, folder / f"ray-{spec}-{turn}")))
        here, there = (1e3 * min(took[kind]) / many for kind in ("local", "ray"))
        show(f"{name}, {cores} at a time", here, there, "ms a job")


def chunks(folder: Path, cores: int, pictures: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(pictures):
        coarse = Image.fromarray(rng.integers(256, size=(9, 9, 3), dtype=np.uint8))
        target = folder / "pictures" / ("cat", "ship")[number % 2]
        target.mkdir(parents=True, exist_ok=True)
        coarse.resize((400, 300), Image.Resampling.BICUBIC).save(target / f"{number:05}.jpg")
    dataset = open_source(str(folder / "pictures"))
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    how: dict[str, Any] = {"texts": class_texts(dataset.class_names, dataset.templates), "views": Views(16)}
    how |= {"batch": 64}
    took = []
    for part in (16, 4, 1):  # some to warm up; a quarter, then all: what these differ by has no start in it
        few = replace(dataset, items=dataset.items[: pictures // part])
        engines: dict[str, dict[str, Any]] = {
            "local": {"workers": cores}, "ray": {"engine": OnRay("mini:clip", "mini:dino", actors=cores)}
        }  # fmt: skip
        took.append(
            [
                timed(partial(extract, few, clip, aux, folder / f"{name}-{part}", **engine, **how))
                for name, engine in engines.items()
            ]
        )
    _, few_took, all_took = np.array(took)
    chunk = 8 / (pictures - pictures // 4)
    (here, there), start = 1e3 * chunk * (all_took - few_took), (4 * few_took - all_took) / 3
    show("extraction, 16 views, the embedded pair", here, there, "ms a chunk of 8")
    show("  and its start", start[0], start[1], "s")


def steps(folder: Path, count: int) -> None:
    pack = superclass_pack(1, images=count, superclasses=20, members=5, views=1, dim=512, aux_dim=768)
    samples = [pack.sample(place) for place in range(count)]
    for name in ("zero_shot", "cosmic"):
        here = Session.create(folder / f"{name}-here", name, pack.task(), make_method(name))
        there = DistantSession.create(folder / f"{name}-there", name, pack.task(), make_method(name))
        took = np.array([[timed(partial(one.step, [sample])) for one in (here, there)] for sample in samples])[10:]
        held = memory(there.whereabouts[1])
        here.close()
        there.close()
        show(f"a step of {name}, on disk, median", *quantiles(took, 0.5), "ms")
        show(f"a step of {name}, 99 of 100 are below", *quantiles(took, 0.99), "ms")
        print(f"  its process holds {held}")
    made: list[DistantSession] = []

    def make(number: int) -> None:
        made.append(DistantSession.create(folder / f"new-{number}", str(number), pack.task(), make_method("tda")))

    took = np.array([timed(partial(make, number)) for number in range(5)])
    print(f"a stream made and its actor started: {np.median(took):.2f} s, median of {len(took)}")
    for session in made:
        session.close()


def quantiles(took: Any, share: float) -> tuple[float, float]:
    """Milliseconds below which a share of the steps are, here and there."""
    here, there = 1e3 * np.quantile(took, share, axis=0)
    return float(here), float(there)


def memory(process: int) -> str:
    """What a process has for itself, and what in all."""
    told = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    rows = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in told[1:] if line.endswith("kB")}
    own = rows["Private_Clean"] + rows["Private_Dirty"]
    return f"{own} MB of its own, {rows['Rss']} MB with what it shares"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pictures", type=int, default=400)
    told = parser.parse_args()
    with TemporaryDirectory(prefix="cosmic-scale-") as scratch:
        folder = Path(scratch)
        superclass_pack(1, images=400, superclasses=20, members=5, views=1, dim=512, aux_dim=768).write(folder / "pack")
        open_pack(str(folder / "pack"))
        start = time.perf_counter()
        with cluster(cores=told.cores, memory=200_000_000):
            first = [Job("zero_shot", (), str(folder / "pack"), limit=1)]
            (folder / "first").mkdir()
            up = time.perf_counter() - start
            list(results(first, folder / "first", False))
            print(f"a cluster of this machine is up in {up:.1f} s; its first job is done after {clock(start):.1f} s")
            print(f"{'':<44} {'local':>10} {'ray':>10} {'more':>10}", flush=True)
            jobs(folder, told.cores, told.jobs)
            steps(folder, told.steps)
            chunks(folder, told.cores, told.pictures)


def clock(start: float) -> float:
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
