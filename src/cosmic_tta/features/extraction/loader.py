"""Worker processes that decode images for the encoders, some chunks ahead of them.

An image is read and decoded once, whatever the number of its views.
The positions of the images alone decide the chunks, so no chunk depends on where an earlier run was stopped.
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

from cosmic_tta.core.errors import CosmicError, ImageError, UnreadableImageError
from cosmic_tta.data.datasets.base import Item
from cosmic_tta.data.images.augment import GeneratedViews, RandomViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import MAX_PIXELS, open_image
from cosmic_tta.data.images.preprocess import Preprocessing

Pixels = NDArray[np.uint8]
CHUNKS_AHEAD = 3


@dataclass(frozen=True)
class ImagePipeline:
    """How an image becomes pixels: its views for CLIP, and the plain view for the auxiliary encoder.

    Args:
        views: How many views are made, and how.
        clip: Preprocessing of the CLIP encoder.
        aux: Preprocessing of the auxiliary encoder, if there is one.
        max_pixels: Images with more pixels are refused before they are decoded.
        shift: Corrupts the image before anything else.
        generated: Views that were generated before; they come last.
    """

    views: RandomViews
    clip: Preprocessing
    aux: Preprocessing | None = None
    max_pixels: int = MAX_PIXELS
    shift: Corruption | None = None
    generated: GeneratedViews | None = None

    @property
    def count(self) -> int:
        """How many views an image has, generated ones included."""
        return self.views.count + (0 if self.generated is None else self.generated.count)

    def prepare(self, item: Item) -> DecodedImage:
        """Read, decode and crop one image. A problem is returned, not raised."""
        try:
            image = open_image(item.read(), max_pixels=self.max_pixels)
        except CosmicError as error:
            return DecodedImage(problem=str(error), unreadable=isinstance(error, UnreadableImageError))
        except (OSError, KeyError, ValueError) as error:  # an archive that was moved or truncated meanwhile
            return DecodedImage(problem=f"{item.key}: cannot be read ({error}).", unreadable=True)
        if self.shift is not None:
            image = self.shift(image, item.key)
        clip = self.views.of(image, item.key, self.clip)
        if self.generated is not None:
            try:
                clip = np.concatenate([clip, self.generated.of(item.key, self.clip)])
            except CosmicError as error:
                return DecodedImage(problem=f"{item.key}: one of its generated views: {error}")
        return DecodedImage(clip, None if self.aux is None else self.aux.pixels(image))


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """The pixels of one image, or its problem."""

    clip: Pixels | None = None  # [V, height, width, 3]
    aux: Pixels | None = None  # [height, width, 3]
    problem: str = ""
    unreadable: bool = False  # the file could not be read, which may be temporary


@dataclass(frozen=True, eq=False)
class DecodedChunk:
    """Successive images of the data set, ready for the encoders. Images that failed are blank."""

    number: int
    positions: range  # of the images in the data set
    clip: Pixels  # [size, V, height, width, 3]; every chunk has the same size, the last one too
    aux: Pixels | None  # [size, height, width, 3]
    problems: dict[int, str] = field(default_factory=dict)  # by position
    unreadable: frozenset[int] = frozenset()  # positions of images whose files could not be read


class ImageLoader:
    """Worker processes that prepare chunks of `size` images, a few chunks ahead. Without workers, two threads."""

    def __init__(self, items: Sequence[Item], pipeline: ImagePipeline, size: int, workers: int) -> None:
        self.items, self.pipeline, self.size, self.workers = items, pipeline, size, workers
        self.waited = 0.0  # seconds in which a chunk was wanted and not ready, except for the first one
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        if self.workers:
            # Forking a process in which an encoder's threads run could deadlock.
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=spawn, initializer=_follow_parent)
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

    def positions(self, number: int) -> range:
        """Return the positions of a chunk's images."""
        return range(number * self.size, min((number + 1) * self.size, len(self.items)))

    def chunks(self, numbers: Iterable[int]) -> Iterator[DecodedChunk]:
        """Yield the chunks of these numbers, in that order."""
        waiting, submitted = iter(numbers), deque[tuple[int, list[Future[DecodedImage]]]]()
        first = True
        while True:
            while len(submitted) < CHUNKS_AHEAD and (number := next(waiting, None)) is not None:
                submitted.append((number, self._submit(number)))
            if not submitted:
                return
            number, futures = submitted.popleft()
            start = time.perf_counter()
            images = [_result(future) for future in futures]
            self.waited += 0.0 if first else time.perf_counter() - start
            first = False
            yield self._chunk(number, images)

    def _submit(self, number: int) -> list[Future[DecodedImage]]:
        if self._pool is None:
            raise RuntimeError("an ImageLoader must be used in a with statement")
        prepare = partial(_prepare, self.pipeline)
        return [self._pool.submit(prepare, self.items[position]) for position in self.positions(number)]

    def _chunk(self, number: int, images: Sequence[DecodedImage]) -> DecodedChunk:
        pipeline, positions = self.pipeline, self.positions(number)
        clip = np.zeros((self.size, pipeline.count, *pipeline.clip.size, 3), np.uint8)
        aux = None if pipeline.aux is None else np.zeros((self.size, *pipeline.aux.size, 3), np.uint8)
        problems = {}
        for row, (position, image) in enumerate(zip(positions, images, strict=True)):
            if image.clip is None:
                problems[position] = image.problem
                continue
            clip[row] = image.clip
            if aux is not None and image.aux is not None:
                aux[row] = image.aux
        unreadable = frozenset(position for position, image in zip(positions, images, strict=True) if image.unreadable)
        return DecodedChunk(number, positions, clip, aux, problems, unreadable)


def default_workers() -> int:
    """Return how many worker processes suit this machine."""
    affinity = getattr(os, "sched_getaffinity", None)  # the cores that this process may use, on some systems
    return min(8, len(affinity(0)) if affinity else os.cpu_count() or 1)


def _prepare(pipeline: ImagePipeline, item: Item) -> DecodedImage:
    return pipeline.prepare(item)


def _result(future: Future[DecodedImage]) -> DecodedImage:
    try:
        return future.result()
    except BrokenProcessPool as error:
        advice = "perhaps the memory ran out: try fewer --workers. Encoded images are kept"
        raise ImageError(f"a process that decodes images was ended from outside; {advice}.") from error


def _follow_parent() -> None:
    """Leave interrupts to the parent, and end when it ends: a killed parent cannot stop its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # Pillow warns of damaged metadata, thousands of times in a large data set
    parent = multiprocessing.parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=end_with_parent, daemon=True).start()
