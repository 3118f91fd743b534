"""Pictures made ready for the encoders, by worker processes, some chunks ahead of them.

A picture is read and decoded once, whatever the number of its views. Chunks are fixed by the pictures' places alone,
so that what is in one never depends on where an earlier run was stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.base import Item
from cosmic_tta.errors import CosmicError, PictureError, UnreadableError
from cosmic_tta.pictures import MAX_PIXELS, open_picture
from cosmic_tta.preprocessing import Preprocessing
from cosmic_tta.views import DrawnViews, Views

Pixels = NDArray[np.uint8]
CHUNKS_AHEAD = 3


@dataclass(frozen=True)
class Recipe:
    """What becomes of a picture: its views for CLIP, and the one that the auxiliary encoder sees."""

    views: Views
    clip: Preprocessing
    aux: Preprocessing | None = None
    max_pixels: int = MAX_PIXELS
    shift: Corruption | None = None  # done to the picture before anything else
    drawn: DrawnViews | None = None  # views that come last

    @property
    def count(self) -> int:
        """How many views a picture has in all."""
        return self.views.count + (0 if self.drawn is None else self.drawn.count)

    def prepare(self, item: Item) -> Prepared:
        """Read, decode and cut one picture; what is wrong with it is told, not raised."""
        try:
            picture = open_picture(item.read(), max_pixels=self.max_pixels)
        except CosmicError as error:
            return Prepared(problem=str(error), unreadable=isinstance(error, UnreadableError))
        except (OSError, KeyError, ValueError) as error:  # an archive that was moved or cut short meanwhile
            return Prepared(problem=f"{item.key}: cannot be read ({error}).", unreadable=True)
        if self.shift is not None:
            picture = self.shift(picture, item.key)
        clip = self.views.of(picture, item.key, self.clip)
        if self.drawn is not None:
            try:
                clip = np.concatenate([clip, self.drawn.of(item.key, self.clip)])
            except CosmicError as error:
                return Prepared(problem=f"{item.key}: one of its drawn views: {error}")
        return Prepared(clip, None if self.aux is None else self.aux.pixels(picture))


@dataclass(frozen=True, eq=False)
class Prepared:
    """One picture's pixels, or what is wrong with it."""

    clip: Pixels | None = None  # [V, height, width, 3]
    aux: Pixels | None = None  # [height, width, 3]
    problem: str = ""
    unreadable: bool = False  # its file, not what is in it: that may pass


@dataclass(frozen=True, eq=False)
class Chunk:
    """Pictures that lie beside each other in the data set, ready for the encoders; blank where one is missing."""

    number: int
    places: range  # of the pictures in the data set
    clip: Pixels  # [size, V, height, width, 3]; size is that of every chunk, the last one too
    aux: Pixels | None  # [size, height, width, 3]
    problems: dict[int, str] = field(default_factory=dict)  # by place
    unreadable: frozenset[int] = frozenset()  # places of those whose files could not be read


class Loader:
    """Worker processes (none: two threads) that prepare chunks of `size` pictures, a few ahead of who takes them."""

    def __init__(self, items: Sequence[Item], recipe: Recipe, size: int, workers: int) -> None:
        self.items, self.recipe, self.size, self.workers = items, recipe, size, workers
        self.waited = 0.0  # seconds in which a chunk was wanted and not ready, but for the first one
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        if self.workers:
            # Forking a process in which an encoder's threads run could lock up.
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=spawn, initializer=_serve_parent)
        else:
            self._pool = ThreadPoolExecutor(2)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __len__(self) -> int:
        """Return the number of chunks."""
        return -(-len(self.items) // self.size)

    def places(self, number: int) -> range:
        """Return which pictures a chunk holds."""
        return range(number * self.size, min((number + 1) * self.size, len(self.items)))

    def chunks(self, numbers: Iterable[int]) -> Iterator[Chunk]:
        """Yield the chunks asked for, in that order."""
        todo, under_way = iter(numbers), deque[tuple[int, list[Future[Prepared]]]]()
        first = True
        while True:
            while len(under_way) < CHUNKS_AHEAD and (number := next(todo, None)) is not None:
                under_way.append((number, self._submit(number)))
            if not under_way:
                return
            number, futures = under_way.popleft()
            start = time.perf_counter()
            prepared = [_result(future) for future in futures]
            self.waited += 0.0 if first else time.perf_counter() - start
            first = False
            yield self._chunk(number, prepared)

    def _submit(self, number: int) -> list[Future[Prepared]]:
        if self._pool is None:
            raise RuntimeError("a Loader is used in a with statement")
        prepare = partial(_prepare, self.recipe)
        return [self._pool.submit(prepare, self.items[place]) for place in self.places(number)]

    def _chunk(self, number: int, prepared: Sequence[Prepared]) -> Chunk:
        recipe, places = self.recipe, self.places(number)
        clip = np.zeros((self.size, recipe.count, *recipe.clip.size, 3), np.uint8)
        aux = None if recipe.aux is None else np.zeros((self.size, *recipe.aux.size, 3), np.uint8)
        problems = {}
        for row, (place, one) in enumerate(zip(places, prepared, strict=True)):
            if one.clip is None:
                problems[place] = one.problem
                continue
            clip[row] = one.clip
            if aux is not None and one.aux is not None:
                aux[row] = one.aux
        unreadable = frozenset(place for place, one in zip(places, prepared, strict=True) if one.unreadable)
        return Chunk(number, places, clip, aux, problems, unreadable)


def default_workers() -> int:
    """Return how many worker processes suit this machine."""
    ours = getattr(os, "sched_getaffinity", None)  # cores that this process may use, where the system tells
    return min(8, len(ours(0)) if ours else os.cpu_count() or 1)


def _prepare(recipe: Recipe, item: Item) -> Prepared:
    return recipe.prepare(item)


def _result(future: Future[Prepared]) -> Prepared:
    try:
        return future.result()
    except BrokenProcessPool as error:
        advice = "perhaps the memory ran out: try fewer --workers. What was encoded is kept"
        raise PictureError(f"a process that decodes pictures was ended from outside; {advice}.") from error


def _serve_parent() -> None:
    """Leave interrupts to the parent, and end with it: a killed parent cannot say goodbye."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # Pillow's remarks on damaged metadata, thousands of them in a large data set
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
