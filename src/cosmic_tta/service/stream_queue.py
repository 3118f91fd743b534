"""One queue per stream: requests run strictly one after the other.

The queue owns its session. Work runs in a thread, so that the event loop never waits for a disk. Steps that wait
together are written to disk together. The queue is bounded: one request too many is answered 429 at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.core.types import Sample
from cosmic_tta.service.errors import Problem, not_ready, too_many_requests
from cosmic_tta.sessions.backend import SessionBackend
from cosmic_tta.sessions.session_info import StepResult

MAX_COMMIT = 64  # samples per write
MAX_RETRY_SECONDS = 60
SMOOTHING = 0.1  # of the mean time per request
T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]


class PredictionBatch(NamedTuple):
    """Predictions, and the class names they refer to. A later request may change the classes."""

    results: list[StepResult]
    class_names: tuple[str, ...]


@dataclass(eq=False)
class _Job:
    """A call on the session or, where `call` is None, a step, which may share a write with other steps."""

    call: Callable[[SessionBackend], Any] | None
    samples: Sequence[Sample] = ()
    source: str | None = None
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    started: bool = False


class StreamQueue:
    """The queue of one stream, and the only access to its session.

    Args:
        id: the session's id in the store.
        session: the session.
        threads: where the session works.
        max_pending: requests that may wait or run.
        max_seconds: seconds that a request may wait for its turn.
        on_commit: is called with the number of samples of each write.
        reopen: opens the session again after an error has closed it.
    """

    def __init__(
        self,
        id: str,
        session: SessionBackend,
        threads: Executor,
        *,
        max_pending: int,
        max_seconds: float,
        on_commit: Callable[[int], None] = lambda size: None,
        reopen: Callable[[str], SessionBackend] | None = None,
    ) -> None:
        self.id, self.session, self._threads = id, session, threads
        self._max_pending, self._max_seconds = max_pending, max_seconds
        self._on_commit, self._reopen = on_commit, reopen
        self._jobs: deque[_Job] = deque()
        self._pending = 0
        self._arrived = asyncio.Event()
        self._closing = self._deleted = False
        self._mean_seconds = 0.01  # per request, an exponential mean
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def pending(self) -> int:
        """Requests that wait or run, from their first byte to their answer."""
        return self._pending

    @property
    def deleted(self) -> bool:
        """Whether the stream was deleted."""
        return self._deleted

    @contextmanager
    def reserve_slot(self, extra: int = 0) -> Iterator[None]:
        """Hold a slot of the queue, before an image is decoded or encoded for the request.

        Args:
            extra: slots beyond the limit that this request may use.

        Raises:
            Problem: the queue is full (429), or the stream is closed.
        """
        self._check_open()
        if self._pending >= self._max_pending + extra:
            retry_after = max(1, min(MAX_RETRY_SECONDS, round(self._pending * self._mean_seconds)))
            raise too_many_requests(
                f"the queue of this stream is full: {self._pending} requests wait or run, the limit is "
                f"{self._max_pending}.",
                retry_after,
            )
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1

    async def step(self, samples: Sequence[Sample], source: str | None = None) -> PredictionBatch:
        """Predict samples and learn from them. Returns once they are on disk."""
        batch: PredictionBatch = await self._submit(_Job(None, samples, source))
        return batch

    async def peek(self, samples: Sequence[Sample]) -> PredictionBatch:
        """Predict samples without learning from them."""
        return await self.call(lambda session: _peek(session, samples))

    async def call(self, function: Callable[[SessionBackend], T]) -> T:
        """Call a function with the session, in its turn."""
        result: T = await self._submit(_Job(function))
        return result

    async def close(self, *, deleted: bool = False) -> None:
        """Finish the jobs that wait, and accept no more.

        Args:
            deleted: whether the stream is being deleted, so that later requests are answered 404.
        """
        self._closing, self._deleted = True, deleted
        self._arrived.set()
        await self._task

    def _check_open(self) -> None:
        if self._deleted:
            raise Problem(404, "the stream was deleted.")
        if self._closing:
            raise not_ready("the server is closing.", 5)

    async def _submit(self, job: _Job) -> Any:
        self._check_open()
        self._jobs.append(job)
        self._arrived.set()
        start = time.monotonic()
        done, _ = await asyncio.wait([job.result], timeout=self._max_seconds)
        if not done and not job.started:
            self._jobs.remove(job)
            raise too_many_requests(
                f"the request waited {self._max_seconds:g} seconds for its turn and was not started.", 5
            )
        result = await job.result  # a started job is finished: what is on disk is answered
        self._mean_seconds += SMOOTHING * (time.monotonic() - start - self._mean_seconds)
        return result

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._jobs:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            jobs = self._take_jobs()
            for job in jobs:
                job.started = True
            outcomes = await loop.run_in_executor(self._threads, self._work, jobs)
            for job, (result, error) in zip(jobs, outcomes, strict=True):
                if job.result.done():
                    continue
                if error is None:
                    job.result.set_result(result)
                else:
                    job.result.set_exception(error)

    def _take_jobs(self) -> list[_Job]:
        """Take the next job. If it is a step, take the steps right behind it too."""
        jobs = [self._jobs.popleft()]
        size = len(jobs[0].samples)
        while jobs[0].call is None and self._jobs and self._jobs[0].call is None:
            size += len(self._jobs[0].samples)
            if size > MAX_COMMIT:
                break
            jobs.append(self._jobs.popleft())
        return jobs

    def _work(self, jobs: Sequence[_Job]) -> list[Outcome]:
        """Run jobs in a thread; return a result or an error for each."""
        if self.session.closed and self._reopen is not None:
            # An error closed the session. What is on disk is intact, so it continues from there.
            try:
                self.session = self._reopen(self.id)
            except Exception as error:
                return [(None, error) for _ in jobs]
        if len(jobs) == 1:
            return [_outcome(self._run_job, jobs[0])]
        try:
            return [(batch, None) for batch in self._step_together(jobs)]
        except CosmicError:
            # One job is refused. A session checks all samples before it writes any, so nothing was done yet.
            return [_outcome(self._run_job, job) for job in jobs]
        except Exception as error:
            return [(None, error) for _ in jobs]

    def _run_job(self, job: _Job) -> Any:
        if job.call is not None:
            return job.call(self.session)
        return self._step_together([job])[0]

    def _step_together(self, jobs: Sequence[_Job]) -> list[PredictionBatch]:
        samples = [sample for job in jobs for sample in job.samples]
        sources = [job.source for job in jobs for _ in job.samples]
        results = iter(self.session.step(samples, sources=sources))
        self._on_commit(len(samples))
        names = self.session.task.class_names
        return [PredictionBatch([next(results) for _ in job.samples], names) for job in jobs]


def _peek(session: SessionBackend, samples: Sequence[Sample]) -> PredictionBatch:
    predictions = session.peek(samples)
    results = [StepResult(-1, prediction, learned=False) for prediction in predictions]
    return PredictionBatch(results, session.task.class_names)


def _outcome(run: Callable[[_Job], Any], job: _Job) -> Outcome:
    try:
        return run(job), None
    except Exception as error:
        return None, error
