"""A sweep on Ray: a task a job, packs once in the object store, results written by the driver as they come.

The run folder is that of a local sweep, file by file; so whoever sweeps again, here or there, goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray

from cosmic_tta.errors import CosmicError
from cosmic_tta.jobs import Job, give_pack, open_pack, put, report_file, run_and_store, samples_file
from cosmic_tta.packs import FeaturePack
from cosmic_tta.report import Report
from cosmic_tta.scale.cluster import ONE_THREAD, RETRIES, cluster, cores
from cosmic_tta.sweep import Swept, Watch, sweep

AHEAD = 3  # jobs under way or waiting, for each core: workers never wait for the driver, which holds few at a time


def sweep_on_ray(
    jobs: Sequence[Job],
    folder: Path,
    *,
    address: str | None = None,
    workers: int | None = None,
    samples: bool = False,
    watch: Watch = lambda *_: None,
) -> Swept:
    """Run what is not done yet on a Ray cluster and return everything, as `sweep` does.

    Args:
        jobs: what to run. Packs need not lie on the cluster; checkpoints and encoders must.
        folder: where each result is kept, on this machine.
        address: of the cluster; none: one of this machine, with `workers` cores.
        workers: jobs at a time; as many as the cluster has cores unless told.
        samples: keep every job's answers too, sample by sample.
        watch: told (done, total, what was done last).
    """
    with cluster(address, cores=workers):
        return sweep(jobs, folder, samples=samples, engine=partial(results, workers=workers), watch=watch)


def results(
    todo: Sequence[Job], folder: Path, samples: bool, *, workers: int | None = None
) -> Iterator[tuple[Job, Report | str]]:
    """Yield each job with its report, or with what went wrong, in the order in which they are done."""
    packs: dict[str, Any] = {}
    refused: dict[str, str] = {}
    task = ray.remote(max_retries=RETRIES, num_cpus=1, runtime_env=ONE_THREAD)(_attempt)
    bound = max(1, workers) if workers else AHEAD * cores()
    under_way: dict[Any, Job] = {}
    waiting = list(reversed(todo))
    while waiting or under_way:
        while waiting and len(under_way) < bound:
            job = waiting.pop()
            folders = [name for name in (job.pack, job.support) if name is not None]
            for name in folders:
                if name not in packs and name not in refused:
                    try:
                        packs[name] = ray.put(_in_memory(open_pack(name)))
                    except CosmicError as error:
                        refused[name] = str(error)
            problem = next((refused[name] for name in folders if name in refused), None)
            if problem is not None:
                yield job, problem
                continue
            under_way[task.remote(job, samples, folders, *(packs[name] for name in folders))] = job
        if not under_way:
            return
        for reference in ray.wait(list(under_way), num_returns=1)[0]:
            job = under_way.pop(reference)
            yield job, _kept(job, folder, reference)


def _kept(job: Job, folder: Path, reference: Any) -> Report | str:
    """Write what a job left, its report last: a report that is there is whole."""
    try:
        outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        told = str(error).strip().splitlines() or [""]
        return f"its worker died {RETRIES + 1} times ({type(error).__name__}: {told[0]}): killed, or out of memory?"
    if isinstance(outcome, str):
        return outcome
    report, files = outcome
    for file in (samples_file(folder, job), report_file(folder, job)):
        if file.name in files:
            put(file, files[file.name])
    made: Report = report
    return made


def _in_memory(pack: FeaturePack) -> FeaturePack:
    """Return a pack whose arrays are plain ones: what is mapped from a file means nothing to another machine."""
    arrays = ("clip", "text", "aux", "labels", "domains")
    plain: dict[str, Any] = {name: np.asarray(array) for name in arrays if (array := getattr(pack, name)) is not None}
    return replace(pack, **plain, tower=None)


def _attempt(
    job: Job, samples: bool, folders: Sequence[str], *packs: FeaturePack
) -> tuple[Report, dict[str, bytes]] | str:
    """Run a job in a worker, and return its report with the files that it leaves."""
    for folder, pack in zip(folders, packs, strict=True):
        give_pack(folder, pack)
    try:
        with TemporaryDirectory(prefix="cosmic-job-") as scratch:
            report = run_and_store(job, Path(scratch), samples=samples)
            return report, {file.name: file.read_bytes() for file in Path(scratch).iterdir()}
    except CosmicError as error:
        return str(error)
    except Exception as error:  # whatever it is, the other jobs go on
        return f"{type(error).__name__}: {error}"
