"""Measure the overhead of Ray per job, extraction chunk, step and session, against the same work without Ray.

    python benchmarks/scale.py [--cores 2] [--jobs 64] [--steps 200] [--images 400]

docs/guide/scaling.md explains the figures.
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

from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.prompts import class_sentences
from cosmic_tta.distributed.cluster import connect_cluster
from cosmic_tta.distributed.extraction import RayEngine
from cosmic_tta.distributed.remote_session import RemoteSession
from cosmic_tta.distributed.sweep import run_jobs, sweep_on_ray
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.evaluation.jobs import Job, open_pack
from cosmic_tta.evaluation.sweep import sweep
from cosmic_tta.features.extraction.extract import extract
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods import make_method
from cosmic_tta.sessions.session import Session

ROUNDS = 3


def seconds(call: Callable[[], Any]) -> float:
    """Return the wall time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def print_row(name: str, local: float, on_ray: float, unit: str) -> None:
    """Print both figures and their difference."""
    print(f"{name:<44} {local:>10.2f} {on_ray:>10.2f} {on_ray - local:>+10.2f}  {unit}", flush=True)


def measure_jobs(folder: Path, cores: int, count: int) -> None:
    """Time jobs that hardly compute, which shows the overhead, then jobs that do. The fastest round counts."""
    pack = str(folder / "pack")
    kinds = {"a job of one sample": ("zero_shot", 1, count), "a job of COSMIC, 100 samples": ("cosmic", 100, 16)}
    for name, (spec, limit, number) in kinds.items():
        times: dict[str, list[float]] = {"local": [], "ray": []}
        for turn in range(ROUNDS):
            jobs = [Job(spec, (), pack, seed=seed, limit=limit) for seed in range(number)]
            warm_up = [Job("zero_shot", (), pack, seed=seed, limit=2) for seed in range(2 * cores)]
            sweep_on_ray(warm_up, folder / f"ray-warm-{spec}-{turn}")
            start = seconds(partial(sweep, warm_up, folder / f"local-warm-{spec}-{turn}", workers=cores))
            local = seconds(partial(sweep, jobs, folder / f"local-{spec}-{turn}", workers=cores)) - start
            times["local"].append(max(local, 0.0))
            times["ray"].append(seconds(partial(sweep_on_ray, jobs, folder / f"ray-{spec}-{turn}")))
        local, on_ray = (1e3 * min(times[engine]) / number for engine in ("local", "ray"))
        print_row(f"{name}, {cores} at a time", local, on_ray, "ms per job")


def measure_chunks(folder: Path, cores: int, images: int) -> None:
    """Time the extraction of generated images: per chunk, and at its start."""
    rng = np.random.default_rng(0)
    for number in range(images):
        coarse = Image.fromarray(rng.integers(256, size=(9, 9, 3), dtype=np.uint8))
        target = folder / "images" / ("cat", "ship")[number % 2]
        target.mkdir(parents=True, exist_ok=True)
        coarse.resize((400, 300), Image.Resampling.BICUBIC).save(target / f"{number:05}.jpg")
    dataset = open_source(str(folder / "images"))
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    texts = class_sentences(dataset.class_names, dataset.templates)
    options: dict[str, Any] = {"texts": texts, "views": RandomViews(16), "batch": 64}
    times = []
    # A sixteenth warms up. A quarter and all differ by their chunks alone, so the start is what they share.
    for divisor in (16, 4, 1):
        part = replace(dataset, items=dataset.items[: images // divisor])
        engines: dict[str, dict[str, Any]] = {
            "local": {"workers": cores},
            "ray": {"engine": RayEngine("mini:clip", "mini:dino", actors=cores)},
        }
        times.append(
            [
                seconds(partial(extract, part, clip, aux, folder / f"{name}-{divisor}", **engine, **options))
                for name, engine in engines.items()
            ]
        )
    _, quarter, whole = np.array(times)
    chunk = 8 / (images - images // 4)
    (local, on_ray), start = 1e3 * chunk * (whole - quarter), (4 * quarter - whole) / 3
    print_row("extraction, 16 views, the embedded encoders", local, on_ray, "ms per chunk of 8")
    print_row("  start of an extraction", start[0], start[1], "s")


def measure_steps(folder: Path, count: int) -> None:
    """Time single steps of durable sessions, and the creation of a session."""
    pack = superclass_pack(1, images=count, superclasses=20, members=5, views=1, dim=512, aux_dim=768)
    samples = [pack.sample(index) for index in range(count)]
    for name in ("zero_shot", "cosmic"):
        local = Session.create(folder / f"{name}-local", name, pack.task(), make_method(name))
        remote = RemoteSession.create(folder / f"{name}-ray", name, pack.task(), make_method(name))
        times = np.array([[seconds(partial(one.step, [sample])) for one in (local, remote)] for sample in samples])[10:]
        memory = process_memory(remote.location[1])
        local.close()
        remote.close()
        print_row(f"a durable step of {name}, median", *quantiles(times, 0.5), "ms")
        print_row(f"a durable step of {name}, 99th percentile", *quantiles(times, 0.99), "ms")
        print(f"  memory of its process: {memory}")
    created: list[RemoteSession] = []

    def create(number: int) -> None:
        created.append(RemoteSession.create(folder / f"new-{number}", str(number), pack.task(), make_method("tda")))

    times = np.array([seconds(partial(create, number)) for number in range(5)])
    print(f"creating a session and its actor: {np.median(times):.2f} s, median of {len(times)}")
    for session in created:
        session.close()


def quantiles(times: Any, share: float) -> tuple[float, float]:
    """Return a quantile of the times in ms, without and with Ray."""
    local, on_ray = 1e3 * np.quantile(times, share, axis=0)
    return float(local), float(on_ray)


def process_memory(process: int) -> str:
    """Return the private memory of a process, and its memory with shared pages."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    rows = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines[1:] if line.endswith("kB")}
    private = rows["Private_Clean"] + rows["Private_Dirty"]
    return f"{private} MB private, {rows['Rss']} MB with shared pages"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=2, help="cores of the cluster")
    parser.add_argument("--jobs", type=int, default=64, help="jobs of one sample per round")
    parser.add_argument("--steps", type=int, default=200, help="steps per session")
    parser.add_argument("--images", type=int, default=400, help="images to extract")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="cosmic-scale-") as scratch:
        folder = Path(scratch)
        superclass_pack(1, images=400, superclasses=20, members=5, views=1, dim=512, aux_dim=768).write(folder / "pack")
        open_pack(str(folder / "pack"))
        start = time.perf_counter()
        with connect_cluster(cores=options.cores, object_store_bytes=200_000_000):
            first_job = [Job("zero_shot", (), str(folder / "pack"), limit=1)]
            (folder / "first").mkdir()
            ready = time.perf_counter() - start
            list(run_jobs(first_job, folder / "first", False))
            first_done = time.perf_counter() - start
            print(f"a local cluster starts in {ready:.1f} s; its first job is done after {first_done:.1f} s")
            print(f"{'':<44} {'local':>10} {'ray':>10} {'overhead':>10}", flush=True)
            measure_jobs(folder, options.cores, options.jobs)
            measure_steps(folder, options.steps)
            measure_chunks(folder, options.cores, options.images)


if __name__ == "__main__":
    main()
