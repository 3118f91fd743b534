"""Run jobs on all cores. Each result is written as soon as it exists; finished jobs are skipped."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import CosmicError, InputError
from cosmic_tta.evaluation.jobs import Job, run_and_store, stored_report
from cosmic_tta.evaluation.report import Report, merge

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
EXIT_SECONDS = 5  # that a worker has to end
Watch = Callable[[int, int, str], None]
# Runs jobs elsewhere and writes their results into a folder: (jobs, folder, samples) → per job its report, or the
# reason why it failed.
Engine = Callable[[Sequence[Job], Path, bool], Iterator[tuple[Job, Report | str]]]


@dataclass
class SweepResult:
    """The reports of a sweep in the order of the jobs, and the failures.

    Example:
        >>> SweepResult().failures
        []
    """

    reports: list[Report] = field(default_factory=list)
    skipped: int = 0  # jobs that were finished before
    failures: list[tuple[Job, str]] = field(default_factory=list)  # with the reason


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sweep(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int | None = None,
    samples: bool = False,
    engine: Engine | None = None,
    watch: Watch = lambda *_: None,
) -> SweepResult:
    """Run the jobs that are not finished, and return the reports of all.

    An interrupt ends the workers and keeps every finished result. A job that fails does not stop the others.

    Args:
        jobs: What to run.
        folder: Where each result is written, under the job's digest. A damaged result is replaced.
        workers: Processes, each with one thread for its arithmetic. None uses all cores, 0 runs in this process.
        samples: Whether to write every job's scores too.
        engine: Runs the jobs instead of processes of this machine.
        watch: Called with the number of finished jobs, the number of all jobs, and the job that finished last.

    Returns:
        The reports and the failures.

    Raises:
        InputError: `workers` is negative, or two results of one job contradict each other.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as name:
        ...     superclass_pack(images=20).write(f"{name}/pack")
        ...     jobs = [Job("tda", (), f"{name}/pack", seed=seed) for seed in (0, 1)]
        ...     first = sweep(jobs[:1], Path(name, "runs"), workers=0)
        ...     second = sweep(jobs, Path(name, "runs"), workers=0)
        >>> len(second.reports), second.skipped
        (2, 1)
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests = {job: job.digest for job in jobs}
    stored = {digests[job]: stored_report(job, folder, samples=samples) for job in jobs}
    found = {digest: report for digest, report in stored.items() if report is not None}
    todo = [job for job in jobs if digests[job] not in found]
    done, result, finished = len(jobs) - len(todo), SweepResult(skipped=len(found)), [found]
    watch(done, len(jobs), "")
    if engine is not None:
        outcomes = engine(todo, folder, samples)
    else:
        outcomes = _run_all(todo, folder, samples, available_cores() if workers is None else workers)
    for job, outcome in outcomes:
        done += 1
        if isinstance(outcome, Report):
            finished.append({digests[job]: outcome})
        else:
            result.failures.append((job, outcome))
        watch(done, len(jobs), str(job))
    merged = merge(*finished)
    result.reports = [merged[digests[job]] for job in jobs if digests[job] in merged]
    return result


def _run_all(todo: Sequence[Job], folder: Path, samples: bool, workers: int) -> Iterator[tuple[Job, Report | str]]:
    """Yield each job with its report, or with the reason why it failed."""
    if workers < 0:
        raise InputError(f"workers must be 0 or more; given {workers}.")
    if workers == 0:
        for job in todo:
            yield job, _attempt(job, folder, samples)
        return
    waiting = list(reversed(todo))
    running: list[SweepWorker] = []
    try:
        for _ in range(min(workers, len(todo))):
            running.append(SweepWorker(folder, samples))
            running[-1].begin(waiting.pop())
        while any(worker.job for worker in running):
            busy = {worker.connection: worker for worker in running if worker.job}
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                job, outcome = worker.finish()
                if outcome is None:  # the process ended during the job
                    running.remove(worker)
                    outcome = f"its process ended with code {worker.exit_code()}: killed, or out of memory?"
                    if waiting:
                        running.append(worker := SweepWorker(folder, samples))
                if waiting:
                    worker.begin(waiting.pop())
                yield job, outcome
    finally:
        for worker in running:
            worker.end()


class SweepWorker:
    """A process that runs one job after the other."""

    def __init__(self, folder: Path, samples: bool) -> None:
        context = multiprocessing.get_context("spawn")  # inherits no threads and no locks
        self.connection, child = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(child, str(folder), samples), daemon=True)
        with _one_thread():
            self.process.start()
        child.close()  # else the end of the process would not close the pipe
        self.job: Job | None = None

    def begin(self, job: Job) -> None:
        """Send a job."""
        self.job = job
        with suppress(OSError):  # the process has ended; `finish` reports it
            self.connection.send(job)

    def finish(self) -> tuple[Job, Any]:
        """Receive the result of the job; None if the process has ended."""
        assert self.job is not None
        job, self.job = self.job, None
        try:
            return job, self.connection.recv()
        except (EOFError, OSError):
            return job, None

    def exit_code(self) -> int | None:
        """Return the exit code of a process that has ended."""
        self.process.join(EXIT_SECONDS)
        return self.process.exitcode

    def end(self) -> None:
        """End the process, even during a job."""
        self.process.terminate()
        self.process.join(EXIT_SECONDS)
        self.connection.close()


def _serve(connection: Connection, folder: str, samples: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles an interrupt and ends its workers
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):  # the parent has ended
            return
        outcome = _attempt(job, Path(folder), samples)
        try:
            connection.send(outcome)
        except OSError:
            return


def _attempt(job: Job, folder: Path, samples: bool) -> Report | str:
    try:
        return run_and_store(job, folder, samples=samples)
    except CosmicError as error:
        return str(error)
    except Exception as error:  # any error of one job must not stop the others
        return f"{type(error).__name__}: {error}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that start now use one thread for their arithmetic."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
