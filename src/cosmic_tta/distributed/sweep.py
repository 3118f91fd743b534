"""A sweep on Ray: one task per job. Packs are sent to the cluster once. This process writes the results.

The run folder has the same files as after a local sweep, so either kind of sweep can continue the other.
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

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.distributed.cluster import MAX_RETRIES, ONE_THREAD, cluster_cores, connect_cluster
from cosmic_tta.evaluation.jobs import Job, open_pack, register_pack, report_file, run_and_store, samples_file
from cosmic_tta.evaluation.report import Report
from cosmic_tta.evaluation.sweep import SweepResult, Watch, sweep
from cosmic_tta.features.pack import FeaturePack

SUBMITTED_PER_CORE = 3  # jobs that run or wait in the cluster: workers always have a next one, few fill its memory


def sweep_on_ray(
    jobs: Sequence[Job],
    folder: Path,
    *,
    address: str | None = None,
    workers: int | None = None,
    samples: bool = False,
    watch: Watch = lambda *_: None,
) -> SweepResult:
    """Run the jobs that are not finished on a Ray cluster, and return the reports of all, as `sweep` does.

    A job whose worker dies is repeated up to 3 times. A job that fails does not stop the others.

    Args:
        jobs: What to run. Workers need no copy of the packs. Checkpoints and encoders must exist on every machine.
        folder: Where each result is written, on this machine.
        address: Address of a running cluster. None starts one on this machine with `workers` cores.
        workers: Jobs that run at the same time. None: as many as the cluster has cores.
        samples: Whether to write every job's scores too.
        watch: Called with the number of finished jobs, the number of all jobs, and the job that finished last.

    Returns:
        The reports and the failures.

    Raises:
        InputError: There is no cluster at the address, or two results of one job contradict each other.

    Examples:
        >>> jobs = [Job("tda", (), "packs/flowers", seed=seed) for seed in range(3)]
        >>> sweep_on_ray(jobs, Path("runs"), address="auto").reports  # doctest: +SKIP
    """
    with connect_cluster(address, cores=workers):
        return sweep(jobs, folder, samples=samples, engine=partial(run_jobs, workers=workers), watch=watch)


def run_jobs(
    jobs: Sequence[Job], folder: Path, samples: bool, *, workers: int | None = None
) -> Iterator[tuple[Job, Report | str]]:
    """Yield each job with its report, or with the reason why it failed, in the order in which they finish.

    This process must be connected to a cluster.
    """
    packs: dict[str, Any] = {}  # references into the object store
    pack_errors: dict[str, str] = {}
    task = ray.remote(max_retries=MAX_RETRIES, num_cpus=1, runtime_env=ONE_THREAD)(_run_in_worker)
    max_submitted = max(1, workers) if workers else SUBMITTED_PER_CORE * cluster_cores()
    submitted: dict[Any, Job] = {}
    waiting = list(reversed(jobs))
    while waiting or submitted:
        while waiting and len(submitted) < max_submitted:
            job = waiting.pop()
            folders = job.pack_folders
            for name in folders:
                if name not in packs and name not in pack_errors:
                    try:
                        packs[name] = ray.put(_in_memory(open_pack(name)))
                    except CosmicError as error:
                        pack_errors[name] = str(error)
            problem = next((pack_errors[name] for name in folders if name in pack_errors), None)
            if problem is not None:
                yield job, problem
                continue
            submitted[task.remote(job, samples, folders, *(packs[name] for name in folders))] = job
        if not submitted:
            return
        for reference in ray.wait(list(submitted), num_returns=1)[0]:
            job = submitted.pop(reference)
            yield job, _store_result(job, folder, reference)


def _store_result(job: Job, folder: Path, reference: Any) -> Report | str:
    """Write the files of a job. The report is written last, so a job with a report is complete."""
    try:
        outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        message = (str(error).strip().splitlines() or [""])[0]
        return f"its worker died {MAX_RETRIES + 1} times ({type(error).__name__}: {message}): killed, or out of memory?"
    if isinstance(outcome, str):
        return outcome
    report: Report
    report, files = outcome
    for file in (samples_file(folder, job), report_file(folder, job)):
        if file.name in files:
            write_atomic(file, files[file.name])
    return report


def _in_memory(pack: FeaturePack) -> FeaturePack:
    """Return the pack with plain arrays: a memory-mapped array cannot be sent to another machine."""
    names = ("clip", "text", "aux", "labels", "domains")
    arrays: dict[str, Any] = {name: np.asarray(array) for name in names if (array := getattr(pack, name)) is not None}
    return replace(pack, **arrays, tower=None)


def _run_in_worker(
    job: Job, samples: bool, folders: Sequence[str], *packs: FeaturePack
) -> tuple[Report, dict[str, bytes]] | str:
    """Run a job, and return its report and the contents of its files by name, or the reason why it failed."""
    for folder, pack in zip(folders, packs, strict=True):
        register_pack(folder, pack)
    try:
        with TemporaryDirectory(prefix="cosmic-job-") as scratch:
            report = run_and_store(job, Path(scratch), samples=samples)
            return report, {file.name: file.read_bytes() for file in Path(scratch).iterdir()}
    except CosmicError as error:
        return str(error)
    except Exception as error:  # any error of one job must not stop the others
        return f"{type(error).__name__}: {error}"
