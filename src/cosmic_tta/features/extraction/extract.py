"""From images to a feature pack. A run that was stopped goes on, and the pack has the same bytes.

While an extraction runs, its features and a journal lie in the folder `PACK.partial`.
The journal has one line for every chunk whose features are on disk.
A later run with the same settings encodes the chunks that have no valid line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_tta.core.errors import ImageError
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.images.augment import GeneratedViews, RandomViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import MAX_PIXELS
from cosmic_tta.encoders.base import ClipEncoder, Encoder
from cosmic_tta.features.class_texts import text_features
from cosmic_tta.features.extraction.engine import EncodedChunk, ExtractionEngine, LocalEngine
from cosmic_tta.features.extraction.finish import failed_keys, finish_interrupted, pack_exists, write_pack
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.features.extraction.plan import ExtractionRequest
from cosmic_tta.features.extraction.resume import PartialPack

ONE_VIEW = RandomViews()
MAX_UNREADABLE = 32  # unreadable files in a row: more of them mean that the drive is gone
Watch = Callable[["ExtractionProgress"], None]


@dataclass(frozen=True)
class ExtractionProgress:
    """How many images are done and how many have failed."""

    done: int  # images, those of earlier runs included
    total: int
    failed: int


@dataclass(frozen=True)
class Extraction:
    """The result of an extraction.

    Args:
        pack: Folder of the pack.
        images: Number of images in it.
        failed: Key of an image that failed → its problem.
        resumed: Number of images that earlier runs had encoded.
        seconds: Time of encoding and waiting, in this run.
        waited: Seconds of these in which the encoders waited for images.

    Examples:
        >>> done = Extraction(Path("pack"), images=90, failed={}, resumed=30, seconds=3.0, waited=0.75)
        >>> done.rate, done.idle
        (20.0, 0.25)
    """

    pack: Path
    images: int
    failed: Mapping[str, str]
    resumed: int
    seconds: float
    waited: float

    @property
    def rate(self) -> float:
        """Images per second, in this run."""
        return (self.images + len(self.failed) - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def idle(self) -> float:
        """Share of the time in which the encoders waited."""
        return self.waited / self.seconds if self.seconds else 0.0


def extract(
    dataset: Dataset,
    clip: ClipEncoder,
    aux: Encoder | None,
    out: str | Path,
    *,
    texts: Sequence[Sequence[str]],
    views: RandomViews = ONE_VIEW,
    batch: int = 64,
    workers: int = 0,
    store: str = "float32",
    max_pixels: int = MAX_PIXELS,
    shift: Corruption | None = None,
    generated: GeneratedViews | None = None,
    strict: bool = False,
    engine: ExtractionEngine | None = None,
    watch: Watch = lambda _: None,
) -> Extraction:
    """Encode the images and class texts of a data set into a new pack.

    Args:
        dataset: The images, and the classes in order.
        clip: Encodes the views and the texts.
        aux: Encodes the plain image; None if there is no auxiliary encoder.
        out: Folder of the pack. It must not exist.
        texts: The sentences of each class.
        views: How many views are made of an image, and how.
        batch: Rows that an encoder takes at once. It may change the last bits of the features.
        workers: Processes that decode; 0 decodes in threads of this process.
        store: `float32` or `float16`, the type of the features in the pack.
        max_pixels: Images with more pixels are refused before they are decoded.
        shift: Corrupts each image first, reproducibly.
        generated: Views that were generated before; they come after the others.
        strict: Stop at the first image that cannot be used, instead of leaving it out.
        engine: Encodes the chunks instead of this process.
        watch: Called with the progress.

    Returns:
        How many images were encoded, which failed, and how long it took.

    Raises:
        PackError: The pack exists, or a stopped run of it had other settings.
        ImageError: No image could be used, or with `strict` one could not.

    Examples:
        >>> import tempfile
        >>> from cosmic_tta.data import class_sentences, few_shot, open_source
        >>> from cosmic_tta.encoders import make_clip
        >>> folder, dataset = tempfile.mkdtemp(), few_shot(open_source("mini"), 1)
        >>> texts = class_sentences(dataset.class_names, dataset.templates)
        >>> extract(dataset, make_clip("mini:clip"), None, f"{folder}/pack", texts=texts).images
        10
    """
    aux_pixels = None if aux is None else aux.preprocessing
    pipeline = ImagePipeline(views, clip.preprocessing, aux_pixels, max_pixels, shift, generated)
    request = ExtractionRequest(dataset, clip, aux, texts, pipeline, batch, store)
    return _run(request, Path(out), engine or LocalEngine(clip, aux, workers), strict, watch)


def _run(request: ExtractionRequest, path: Path, engine: ExtractionEngine, strict: bool, watch: Watch) -> Extraction:
    settings, total = request.settings, len(request.dataset)
    if path.exists():
        images, failed = finish_interrupted(path, settings)
        return Extraction(path, images, failed, resumed=images + len(failed), seconds=0.0, waited=0.0)
    with PartialPack.open(path, settings, request.shapes(), request.store) as partial:
        if path.exists():
            raise pack_exists(path)  # another run finished just before this one began
        text = text_features(request.clip, request.texts)
        start = time.perf_counter()
        resumed = _encode_missing_chunks(request, engine, partial, strict, watch)
        seconds = time.perf_counter() - start
        failed = failed_keys(partial, request)
        images = total - len(failed)
        if images:
            write_pack(path, partial, request, text)
    PartialPack.remove(path)
    if not images:
        first = next(iter(failed.values()))
        raise ImageError(f"none of {total} images could be used; the first one: {first}")
    return Extraction(path, images, failed, resumed, seconds, engine.waited)


def _encode_missing_chunks(
    request: ExtractionRequest, engine: ExtractionEngine, partial: PartialPack, strict: bool, watch: Watch
) -> int:
    """Encode the chunks that no earlier run has recorded; return how many images those had encoded."""
    plan, total = request.plan(), len(request.dataset)
    resumed = sum(len(plan.positions(number)) for number in partial.done)
    done, unreadable = resumed, 0
    watch(ExtractionProgress(done, total, len(partial.failed)))
    missing = [number for number in range(plan.chunk_count) if number not in partial.done]
    for chunk in engine.chunks(plan, missing):
        if strict and chunk.problems:
            raise ImageError(next(iter(chunk.problems.values())))
        unreadable = _count_unreadable(chunk, unreadable)
        partial.record(chunk.number, chunk.positions, chunk.features, chunk.problems, retry=bool(chunk.unreadable))
        done += len(chunk.positions)
        watch(ExtractionProgress(done, total, len(partial.failed)))
    return resumed


def _count_unreadable(chunk: EncodedChunk, count: int) -> int:
    """Count successive images whose files cannot be read; many of them mean that the drive is gone."""
    for position in chunk.positions:
        count = count + 1 if position in chunk.unreadable else 0
        if count == MAX_UNREADABLE:
            raise ImageError(
                f"{MAX_UNREADABLE} successive images cannot be read; the last: {chunk.problems[position]} "
                "Is a drive or a network share gone? Encoded images are kept. "
                "Run the same command again: it goes on, and tries these images again."
            )
    return count
