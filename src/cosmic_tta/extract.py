"""From pictures to a feature pack: encoded once, resumable, the same bytes however often it was stopped.

While it runs, what is done lies in the folder `PACK.partial`: the features, and a journal with a line for every
chunk whose features are safe on disk. A run that finds such a folder goes on after its last line, if it was made
with the same settings.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.base import Dataset, Item
from cosmic_tta.encoders.base import ClipEncoder, Encoder
from cosmic_tta.errors import EncoderError, PackError, PictureError
from cosmic_tta.loading import Chunk, Loader, Recipe
from cosmic_tta.packs import FeaturePack
from cosmic_tta.partial import Partial
from cosmic_tta.pictures import MAX_PIXELS
from cosmic_tta.prompts import text_features
from cosmic_tta.views import DrawnViews, Views

PLAIN = Views()
BLOCK = 1024  # pictures copied at once
GONE = 32  # so many unreadable files in a row are not chance
Watch = Callable[["Progress"], None]
Features = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Progress:
    """How far an extraction is."""

    done: int  # pictures, those of earlier runs too
    total: int
    failed: int


@dataclass(frozen=True)
class Extraction:
    """What an extraction came to."""

    pack: Path
    pictures: int  # in the pack
    failed: Mapping[str, str]  # key of a picture → what is wrong with it
    resumed: int  # pictures that earlier runs had encoded
    seconds: float  # of encoding and waiting, in this run
    waited: float  # of them, the encoders waited for pictures

    @property
    def rate(self) -> float:
        """Pictures a second, in this run."""
        return (self.pictures + len(self.failed) - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def idle(self) -> float:
        """Share of the time in which the encoders waited."""
        return self.waited / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, eq=False)
class Encoded:
    """A chunk's features, and what was wrong with some of its pictures."""

    number: int
    places: range  # of the pictures in the data set
    features: Features
    problems: Mapping[int, str]  # by place
    unreadable: frozenset[int]  # places of those whose files could not be read


class Engine(Protocol):
    """Encodes chunks elsewhere, each by `encode_chunk`; in any order, since a chunk depends on nothing but itself."""

    waited: float  # seconds in which an encoder had no pictures, on the average of all

    def chunks(self, work: Work, numbers: Sequence[int]) -> Iterator[Encoded]:
        """Yield the chunks asked for, as they are done."""
        ...  # pragma: no cover


@dataclass(frozen=True, eq=False)
class Work:
    """What decides the features of every chunk; the weights are told by their fingerprints."""

    items: Sequence[Item]
    recipe: Recipe
    size: int  # pictures a chunk
    batch: int
    clip: str  # fingerprint
    aux: str | None


class Here:
    """The engine of one process: workers decode, this process encodes."""

    def __init__(self, clip: Encoder, aux: Encoder | None, workers: int) -> None:
        self._clip, self._aux, self._workers = clip, aux, workers
        self.waited = 0.0

    def chunks(self, work: Work, numbers: Sequence[int]) -> Iterator[Encoded]:
        """Yield the chunks asked for, in that order."""
        with Loader(work.items, work.recipe, work.size, self._workers) as loader:
            for chunk in loader.chunks(numbers):
                yield encode_chunk(chunk, self._clip, self._aux, work.batch)
                self.waited = loader.waited


def extract(
    dataset: Dataset,
    clip: ClipEncoder,
    aux: Encoder | None,
    out: str | Path,
    *,
    texts: Sequence[Sequence[str]],
    views: Views = PLAIN,
    batch: int = 64,
    workers: int = 0,
    store: str = "float32",
    max_pixels: int = MAX_PIXELS,
    shift: Corruption | None = None,
    drawn: DrawnViews | None = None,
    strict: bool = False,
    engine: Engine | None = None,
    watch: Watch = lambda _: None,
) -> Extraction:
    """Encode a data set's pictures and class texts into a new pack.

    Args:
        dataset: the pictures, and the classes in order.
        clip: encodes views and texts.
        aux: encodes the plain picture, if there is one.
        out: the pack's folder; must not be there yet.
        texts: the sentences of each class.
        views: how many views a picture has, and how they are made.
        batch: rows that an encoder takes at once; part of the result, since last bits may depend on it.
        workers: processes that decode; 0 decodes in threads of this one.
        store: `float32` or `float16`, the type of the features in the pack.
        max_pixels: a larger picture is refused before it is decoded.
        shift: spoil each picture first, in a way that can be repeated.
        drawn: views that were drawn beforehand; they come after the others.
        strict: end at the first picture that cannot be used, instead of leaving it out.
        engine: encodes the chunks, in place of this process.
        watch: is told the progress.
    """
    path = Path(out)
    if store not in ("float32", "float16"):
        raise PackError(f"features are stored as float32 or float16; given {store!r}.")
    if not len(dataset):
        raise PackError(f"{dataset.name!r} has no pictures to encode.")
    recipe = Recipe(views, clip.preprocessing, None if aux is None else aux.preprocessing, max_pixels, shift, drawn)
    size = _chunk_size(batch, recipe.count)
    plan = _plan(dataset, clip, aux, texts, recipe, batch, size, store)
    beside = {} if aux is None else {"aux": (len(dataset), aux.dim)}
    shapes = {"clip": (len(dataset), recipe.count, clip.dim)} | beside
    if path.exists():
        return _finished(path, plan)
    engine = engine or Here(clip, aux, workers)
    work = Work(dataset.items, recipe, size, batch, clip.fingerprint, None if aux is None else aux.fingerprint)
    with Partial.open(path, plan, shapes, store) as partial:
        if path.exists():
            raise _there(path)  # another run was done just before this one began
        earlier = sum(len(_places(number, size, len(dataset))) for number in partial.done)
        todo = [number for number in range(-(-len(dataset) // size)) if number not in partial.done]
        text = text_features(clip, texts)
        done, in_a_row, start = earlier, 0, time.perf_counter()
        watch(Progress(done, len(dataset), len(partial.failed)))
        for chunk in engine.chunks(work, todo):
            if strict and chunk.problems:
                raise PictureError(next(iter(chunk.problems.values())))
            in_a_row = _unreadable_in_a_row(chunk, in_a_row)
            partial.record(chunk.number, chunk.places, chunk.features, chunk.problems, again=bool(chunk.unreadable))
            done += len(chunk.places)
            watch(Progress(done, len(dataset), len(partial.failed)))
        seconds = time.perf_counter() - start
        failed = {dataset.items[place].key: problem for place, problem in sorted(partial.failed.items())}
        pictures = len(dataset) - len(partial.failed)
        if pictures:
            _finish(path, partial, dataset, clip, aux, text, plan)
    Partial.remove(path)
    if not pictures:
        first = next(iter(failed.values()))
        raise PictureError(f"none of {len(dataset)} pictures could be used; the first one: {first}")
    return Extraction(path, pictures, failed, earlier, seconds, engine.waited)


def _unreadable_in_a_row(chunk: Encoded, count: int) -> int:
    """Count pictures one after the other whose files cannot be read; past a bound, a drive has gone, not a picture."""
    for place in chunk.places:
        count = count + 1 if place in chunk.unreadable else 0
        if count == GONE:
            raise PictureError(
                f"{GONE} pictures one after the other cannot be read; the last: {chunk.problems[place]} Has a drive or "
                "a share gone? What is encoded is kept; the same command goes on, and tries these again."
            )
    return count


def _chunk_size(batch: int, views: int) -> int:
    """Return how many pictures a chunk holds: full batches for CLIP, not too small for the auxiliary encoder.

    >>> _chunk_size(64, 1), _chunk_size(64, 9), _chunk_size(64, 16)
    (64, 14, 8)
    """
    least = max(1, batch // 8)
    return -(-least * views // batch) * batch // views


def _places(number: int, size: int, pictures: int) -> range:
    return range(number * size, min((number + 1) * size, pictures))


def _there(path: Path) -> PackError:
    return PackError(f"{str(path)!r} is there already; remove it or choose another folder.")


def _finished(path: Path, plan: Mapping[str, Any]) -> Extraction:
    """End what a run did that was stopped when its pack was whole and its partial folder not yet removed."""
    if not Partial.awaits_removal(path, plan):
        raise _there(path)
    pack = FeaturePack.open(path)
    failed = dict(pack.made.get("left out", {}))
    if pack.made != dict(plan) | {"left out": failed}:
        raise _there(path)
    Partial.remove(path)
    return Extraction(path, len(pack), failed, len(pack) + len(failed), 0.0, 0.0)


def _plan(
    dataset: Dataset,
    clip: ClipEncoder,
    aux: Encoder | None,
    texts: Sequence[Sequence[str]],
    recipe: Recipe,
    batch: int,
    size: int,
    store: str,
) -> dict[str, Any]:
    """Return all that decides the bytes of the pack; pictures are told by their keys."""
    return {
        "dataset": dataset.name,
        "split": dataset.split,
        "pictures": len(dataset),
        "keys and labels": _digest(f"{item.key}\t{item.label}" for item in dataset.items),
        "classes": _digest(dataset.class_names),
        "texts": _digest("\n".join(sentences) for sentences in texts),
        "clip": _described(clip),
        "aux": None if aux is None else _described(aux),
        "views": asdict(recipe.views),
        "max_pixels": recipe.max_pixels,
        "shift": None if recipe.shift is None else asdict(recipe.shift),
        "batch": batch,
        "chunk": size,
        "store": store,
    } | ({} if recipe.drawn is None else {"drawn views": asdict(recipe.drawn)})


def _described(encoder: Encoder) -> dict[str, Any]:
    told = encoder.preprocessing.described()
    return {"model": encoder.name, "weights": encoder.fingerprint, "preprocessing": told}


def _digest(lines: Iterator[str] | Sequence[str]) -> str:
    digest = blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()


def encode_chunk(chunk: Chunk, clip: Encoder, aux: Encoder | None, batch: int) -> Encoded:
    """Encode a chunk's pictures in batches that are always full, blank rows making up what is missing."""
    size, views = chunk.clip.shape[:2]
    rows = chunk.clip.reshape(size * views, *chunk.clip.shape[2:])
    features = {"clip": _batches(clip, rows, batch, len(chunk.places) * views).reshape(-1, views, clip.dim)}
    if aux is not None and chunk.aux is not None:
        features["aux"] = _batches(aux, chunk.aux, min(batch, size), len(chunk.places))
    for name, array in features.items():
        for place, row in zip(chunk.places, array, strict=True):
            if place not in chunk.problems and not np.isfinite(row).all():
                encoder = clip if name == "clip" else aux
                told = encoder.name if encoder is not None else name
                raise EncoderError(f"{told!r} gave NaN or infinity for picture {place}; try --dtype float32.")
    return Encoded(chunk.number, chunk.places, features, chunk.problems, chunk.unreadable)


def _batches(encoder: Encoder, rows: NDArray[np.uint8], batch: int, wanted: int) -> NDArray[np.float32]:
    blank = -len(rows) % batch
    if blank:
        rows = np.concatenate([rows, np.zeros((blank, *rows.shape[1:]), np.uint8)])
    encoded = [encoder.encode(rows[start : start + batch]) for start in range(0, wanted, batch)]
    return np.concatenate(encoded)[:wanted]


def _finish(
    path: Path,
    partial: Partial,
    dataset: Dataset,
    clip: ClipEncoder,
    aux: Encoder | None,
    text: NDArray[np.float32],
    plan: Mapping[str, Any],
) -> None:
    """Write the pack, without the pictures that failed; until it is whole, within the partial folder."""
    staging = partial.folder / "whole"
    shutil.rmtree(staging, ignore_errors=True)  # of a run that was stopped here
    staging.mkdir()
    kept = [place for place in range(len(dataset)) if place not in partial.failed]
    labels = [dataset.items[place].label for place in kept]
    arrays: dict[str, NDArray[Any]] = dict(partial.arrays)
    if len(kept) < len(dataset):
        arrays = {name: _rows(array, kept, staging / f"{name}.npy") for name, array in arrays.items()}
    left_out = {dataset.items[place].key: why for place, why in sorted(partial.failed.items())}
    FeaturePack(
        name=dataset.name,
        class_names=dataset.class_names,
        clip=arrays["clip"],
        text=text.astype(plan["store"]),
        aux=arrays.get("aux"),
        labels=None if None in labels else np.array(labels, np.int64),
        logit_scale=clip.logit_scale,
        clip_model=clip.name,
        aux_model="" if aux is None else aux.name,
        prompts=" | ".join(dataset.templates),
        source=dataset.source,
        licence=dataset.licence,
        keys=tuple(dataset.items[place].key for place in kept),
        made=dict(plan) | {"left out": left_out},
    ).write(staging / path.name)
    (staging / path.name).rename(path)


def _rows(array: NDArray[Any], kept: Sequence[int], file: Path) -> NDArray[Any]:
    """Write some rows of an array to a file, a block at a time since all of them may not fit into memory."""
    head = np.lib.format.header_data_from_array_1_0(array) | {"shape": (len(kept), *array.shape[1:])}
    with open(file, "wb") as target:
        np.lib.format.write_array_header_1_0(target, head)
        for start in range(0, len(kept), BLOCK):
            target.write(array[kept[start : start + BLOCK]].tobytes())
    chosen: NDArray[Any] = np.load(file, mmap_mode="r")
    return chosen
