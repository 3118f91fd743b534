"""Jobs on all cores: each result on disk as soon as it is there, what is done is skipped, what fails is told."""

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

from cosmic_tta.errors import CosmicError, InputError
from cosmic_tta.jobs import Job, run_and_store, stored
from cosmic_tta.report import Report, merge

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
Watch = Callable[[int, int, str], None]
# Runs jobs elsewhere and keeps their results in a folder: (jobs, folder, samples) → each job with its report, or with
# what went wrong.
Engine = Callable[[Sequence[Job], Path, bool], Iterator[tuple[Job, Report | str]]]


@dataclass
class Swept:
    """What a sweep gave: reports in the order of the jobs, and why some are missing."""

    reports: list[Report] = field(default_factory=list)
    skipped: int = 0  # were done before
    failures: list[tuple[Job, str]] = field(default_factory=list)


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
) -> Swept:
    """Run what is not done yet and return everything.

    Args:
        jobs: what to run.
        folder: where each result is kept, under the job's digest. A file that is damaged is made anew.
        workers: processes, each with one thread for its arithmetic; all cores unless told; 0: in this process.
        samples: keep every job's answers too, sample by sample.
        engine: runs the jobs, in place of processes of this machine.
        watch: told (done, total, what was done last).

    An interrupt ends the workers and leaves what is done. A job that fails costs only itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests = {job: job.digest for job in jobs}
    found = {digests[job]: report for job in jobs if (report := stored(job, folder, samples=samples)) is not None}
    made: list[dict[str, Report]] = []
    result = Swept(skipped=len(found))
    todo = [job for job in jobs if digests[job] not in found]
    watch(len(found), len(jobs), "")
    count = len(found)
    if engine is not None:
        results = engine(todo, folder, samples)
    else:
        results = _results(todo, folder, samples, available_cores() if workers is None else workers)
    for job, outcome in results:
        count += 1
        if isinstance(outcome, Report):
            made.append({digests[job]: outcome})
        else:
            result.failures.append((job, outcome))
        watch(count, len(jobs), str(job))
    done = merge(found, *made)
    result.reports = [done[digests[job]] for job in jobs if digests[job] in done]
    return result


def _results(todo: Sequence[Job], folder: Path, samples: bool, workers: int) -> Iterator[tuple[Job, Report | str]]:
    """Yield each job with its report, or with what went wrong."""
    if workers < 0:
        raise InputError(f"workers must be 0 or more; given {workers}.")
    if workers == 0:
        for job in todo:
            yield job, _attempt(job, folder, samples)
        return
    waiting = list(reversed(todo))
    crew: list[Worker] = []
    try:
        for _ in range(min(workers, len(todo))):
            crew.append(Worker(folder, samples))
            crew[-1].begin(waiting.pop())
        while any(worker.job for worker in crew):
            busy = {worker.connection: worker for worker in crew if worker.job}
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                job, outcome = worker.finish()
                if outcome is None:  # it died in the middle; another takes its place
                    crew.remove(worker)
                    outcome = f"its process ended with code {worker.exit_code()}: killed, or out of memory?"
                    if waiting:
                        crew.append(worker := Worker(folder, samples))
                if waiting:
                    worker.begin(waiting.pop())
                yield job, outcome
    finally:
        for worker in crew:
            worker.end()


class Worker:
    """A process that runs one job after the other."""

    def __init__(self, folder: Path, samples: bool) -> None:
        context = multiprocessing.get_context("spawn")  # no threads or locks are inherited
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, str(folder), samples), daemon=True)
        with _one_thread():
            self.process.start()
        theirs.close()  # so that its end is noticed
        self.job: Job | None = None

    def begin(self, job: Job) -> None:
        """Hand over a job."""
        self.job = job
        with suppress(OSError):  # it is gone; finish tells
            self.connection.send(job)

    def finish(self) -> tuple[Job, Any]:
        """Take the result of a job; None if the process is gone."""
        assert self.job is not None
        job, self.job = self.job, None
        try:
            return job, self.connection.recv()
        except (EOFError, OSError):
            return job, None

    def exit_code(self) -> int | None:
        """Return what a process that is gone left."""
        self.process.join(5)
        return self.process.exitcode

    def end(self) -> None:
        """End the process, in the middle of a job if it has one."""
        self.process.terminate()
        self.process.join(5)
        self.connection.close()


def _serve(connection: Connection, folder: str, samples: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, who ends us
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):  # the parent is gone
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
    except Exception as error:  # whatever it is, the other jobs go on
        return f"{type(error).__name__}: {error}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let a process that is started now use one thread for its arithmetic."""
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
