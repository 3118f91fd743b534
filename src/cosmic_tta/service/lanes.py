"""One lane a stream: requests strictly one after the other, steps that wait together go to disk together.

A session has one owner, its lane. What is asked of it runs in a thread, so that the event loop never waits for a disk.
A lane is bounded: one request too many is answered 429 at once, before anything was done for it.
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

from cosmic_tta.core import Sample
from cosmic_tta.errors import CosmicError
from cosmic_tta.service.refusals import Refused, busy
from cosmic_tta.session import Answered, Session

GROUP = 64  # samples that go to disk in one write
T = TypeVar("T")


class Answers(NamedTuple):
    """What samples were answered, and the classes at that moment: another request may change them next."""

    answered: list[Answered]
    class_names: tuple[str, ...]


@dataclass(eq=False)
class _Job:
    """Something that is asked of a session; `samples` where it is a step, which may share a write with others."""

    call: Callable[[Session], Any] | None
    samples: Sequence[Sample] = ()
    source: str | None = None
    done: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    started: bool = False


class Lane:
    """The only way to a session."""

    def __init__(
        self,
        id: str,
        session: Session,
        threads: Executor,
        *,
        queue: int,
        patience: float,
        reopen: Callable[[str], Session] | None = None,
    ) -> None:
        self.id, self.session, self._threads = id, session, threads
        self._bound, self._patience, self._reopen = queue, patience, reopen
        self._jobs: deque[_Job] = deque()
        self._inside = 0  # requests from their first byte to their answer
        self._arrived = asyncio.Event()
        self._closing = self._gone = False
        self._seconds = 0.01  # what a request takes here, by late experience
        self.groups: Callable[[int], None] = lambda size: None  # told how many samples went to disk together
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def inside(self) -> int:
        """Requests that are waiting or under way."""
        return self._inside

    @contextmanager
    def admitted(self, spare: int = 0) -> Iterator[None]:
        """Take a place in the lane, or be answered 429: before a picture is decoded or encoded for it."""
        self._check_open()
        if self._inside >= self._bound + spare:
            seconds = max(1, min(60, round(self._inside * self._seconds)))
            raise busy(f"{self._inside} requests are waiting for this stream, as many as may.", seconds)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def step(self, samples: Sequence[Sample], source: str | None = None) -> Answers:
        """Learn from samples and answer them, once they are on disk."""
        answers: Answers = await self._queued(_Job(None, samples, source))
        return answers

    async def peek(self, samples: Sequence[Sample]) -> Answers:
        """Answer samples, and change nothing."""
        return await self.ask(lambda session: _peeked(session, samples))

    async def ask(self, call: Callable[[Session], T]) -> T:
        """Do anything else with the session, in its turn."""
        result: T = await self._queued(_Job(call))
        return result

    async def close(self, *, gone: bool = False) -> None:
        """Let what is waiting finish, and take nothing more; `gone` if the stream is being deleted."""
        self._closing, self._gone = True, gone
        self._arrived.set()
        await self._task

    def _check_open(self) -> None:
        if self._gone:
            raise Refused(404, "the stream was deleted meanwhile.")
        if self._closing:
            raise Refused(503, "the server is closing.", headers={"Retry-After": "5"})

    async def _queued(self, job: _Job) -> Any:
        self._check_open()
        self._jobs.append(job)
        self._arrived.set()
        begun = time.monotonic()
        done, _ = await asyncio.wait([job.done], timeout=self._patience)
        if not done and not job.started:
            self._jobs.remove(job)
            raise busy(f"the request waited {self._patience:g} seconds for its turn; it was not begun.", 5)
        answer = await job.done  # once begun it is seen through: what is on disk is answered
        self._seconds += 0.1 * (time.monotonic() - begun - self._seconds)
        return answer

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._jobs:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            taken = self._take()
            for job in taken:
                job.started = True
            for job, (answer, error) in zip(
                taken, await loop.run_in_executor(self._threads, self._work, taken), strict=True
            ):
                if job.done.done():
                    continue
                if error is None:
                    job.done.set_result(answer)
                else:
                    job.done.set_exception(error)

    def _take(self) -> list[_Job]:
        """Take the next job; if it is a step, the steps right behind it too."""
        taken = [self._jobs.popleft()]
        size = len(taken[0].samples)
        while taken[0].call is None and self._jobs and self._jobs[0].call is None:
            size += len(self._jobs[0].samples)
            if size > GROUP:
                break
            taken.append(self._jobs.popleft())
        return taken

    def _work(self, jobs: Sequence[_Job]) -> list[tuple[Any, BaseException | None]]:
        if self.session.closed and self._reopen is not None:
            # An error closed it; what is on disk is whole, so it is taken up again from there.
            try:
                self.session = self._reopen(self.id)
            except Exception as error:
                return [(None, error) for _ in jobs]
        if len(jobs) == 1:
            return [_tried(self._one, jobs[0])]
        try:
            return [(answer, None) for answer in self._together(jobs)]
        except CosmicError:
            # One of them is refused. A session checks all before it writes any, so nothing was done: one by one.
            return [_tried(self._one, job) for job in jobs]
        except Exception as error:
            return [(None, error) for _ in jobs]

    def _one(self, job: _Job) -> Any:
        if job.call is not None:
            return job.call(self.session)
        return self._together([job])[0]

    def _together(self, jobs: Sequence[_Job]) -> list[Answers]:
        samples = [sample for job in jobs for sample in job.samples]
        sources = [job.source for job in jobs for _ in job.samples]
        answered = iter(self.session.step(samples, sources=sources))
        self.groups(len(samples))
        names = self.session.task.class_names
        return [Answers([next(answered) for _ in job.samples], names) for job in jobs]


def _peeked(session: Session, samples: Sequence[Sample]) -> Answers:
    looked = session.peek(samples)
    return Answers([Answered(-1, prediction, learned=False) for prediction in looked], session.task.class_names)


def _tried(call: Callable[[_Job], Any], job: _Job) -> tuple[Any, BaseException | None]:
    try:
        return call(job), None
    except Exception as error:
        return None, error
