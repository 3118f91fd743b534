"""What an extraction has to do: its request, its chunks, and the settings that decide the pack's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from cosmic_tta.core.errors import PackError
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.encoders.base import ClipEncoder, Encoder
from cosmic_tta.features.extraction.loader import ImagePipeline

STORED_TYPES = ("float32", "float16")


@dataclass(frozen=True, eq=False)
class ExtractionPlan:
    """What decides the features of every chunk. It holds no weights, so that it can be sent to other machines."""

    items: Sequence[Item]
    pipeline: ImagePipeline
    chunk_size: int  # images
    batch: int  # rows that an encoder takes at once
    clip_fingerprint: str
    aux_fingerprint: str | None

    @property
    def chunk_count(self) -> int:
        """How many chunks the images make."""
        return -(-len(self.items) // self.chunk_size)

    def positions(self, number: int) -> range:
        """Return the positions of a chunk's images in the data set."""
        return range(number * self.chunk_size, min((number + 1) * self.chunk_size, len(self.items)))


@dataclass(frozen=True, eq=False)
class ExtractionRequest:
    """Images, classes and encoders of one extraction, and how the features are stored."""

    dataset: Dataset
    clip: ClipEncoder
    aux: Encoder | None
    texts: Sequence[Sequence[str]]
    pipeline: ImagePipeline
    batch: int
    store: str

    def __post_init__(self) -> None:
        if self.store not in STORED_TYPES:
            raise PackError(f"features are stored as {' or '.join(STORED_TYPES)}; given {self.store!r}.")
        if not len(self.dataset):
            raise PackError(f"{self.dataset.name!r} has no images to encode.")

    def plan(self) -> ExtractionPlan:
        """Return the plan that an engine works by."""
        return ExtractionPlan(
            self.dataset.items,
            self.pipeline,
            chunk_size(self.batch, self.pipeline.count),
            self.batch,
            self.clip.fingerprint,
            None if self.aux is None else self.aux.fingerprint,
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays, images that fail included."""
        shapes: dict[str, tuple[int, ...]] = {"clip": (len(self.dataset), self.pipeline.count, self.clip.dim)}
        return shapes if self.aux is None else shapes | {"aux": (len(self.dataset), self.aux.dim)}

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides the pack's bytes. Images are identified by their keys."""
        dataset, pipeline = self.dataset, self.pipeline
        return {
            "dataset": dataset.name,
            "split": dataset.split,
            "images": len(dataset),
            "keys and labels": _digest(f"{item.key}\t{item.label}" for item in dataset.items),
            "classes": _digest(dataset.class_names),
            "texts": _digest("\n".join(sentences) for sentences in self.texts),
            "clip": _encoder_settings(self.clip),
            "aux": None if self.aux is None else _encoder_settings(self.aux),
            "views": asdict(pipeline.views),
            "max_pixels": pipeline.max_pixels,
            "shift": None if pipeline.shift is None else asdict(pipeline.shift),
            "batch": self.batch,
            "chunk": chunk_size(self.batch, pipeline.count),
            "store": self.store,
        } | ({} if pipeline.generated is None else {"generated views": asdict(pipeline.generated)})


def chunk_size(batch: int, views: int) -> int:
    """Return how many images a chunk holds: full batches for CLIP, not too small for the auxiliary encoder.

    >>> chunk_size(64, 1), chunk_size(64, 9), chunk_size(64, 16)
    (64, 14, 8)
    """
    least = max(1, batch // 8)
    return -(-least * views // batch) * batch // views


def _encoder_settings(encoder: Encoder) -> dict[str, Any]:
    return {
        "model": encoder.name,
        "weights": encoder.fingerprint,
        "preprocessing": encoder.preprocessing.to_dict(),
    }


def _digest(lines: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()
