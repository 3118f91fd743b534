"""Thumbnails of the images that a stream has seen, so that people can see what its memories hold.

They are files in the stream's folder, named by the step and by fingerprints of the features, never by words of a
client. A memory row finds its thumbnail by its features, even after a roll-back or a forgotten source. Thumbnails are
not part of the stream's record: they are bounded in number and bytes, never synced, and may fail to be written.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.arrays import Array
from cosmic_tta.core.types import Sample

EDGE = 72  # pixels
JPEG_QUALITY = 88
MAX_COUNT = 2000  # per stream
MAX_BYTES = 16 << 20  # per stream
FINGERPRINT_LEVELS = 64.0  # quantization levels per unit
PRUNED_SHARE = 0.9  # of the limits that remains after pruning
FILE_NAME = re.compile(r"(\d{1,18})((?:-[0-9a-f]{16}){1,2})\.jpg")


class _ThumbnailFile(NamedTuple):
    path: Path
    fingerprints: tuple[str, ...]
    size: int  # bytes


def fingerprint(feature: Array) -> str:
    """Return a short fingerprint of one feature row.

    The row is quantized, because some methods normalize a row again, which changes its last bits.
    """
    return blake2b(np.rint(feature * FINGERPRINT_LEVELS).astype(np.int16).tobytes(), digest_size=8).hexdigest()


class Thumbnails:
    """The thumbnails of one stream. It is thread-safe.

    Args:
        folder: the stream's folder.
        max_count: largest number of thumbnails.
        max_bytes: largest size of all thumbnails.
    """

    def __init__(self, folder: Path, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_count, self._max_bytes = folder / "thumbnails", max_count, max_bytes
        self._lock = threading.Lock()
        self._files: dict[int, _ThumbnailFile] = {}  # by step
        self._steps: dict[str, int] = {}  # by fingerprint
        self._bytes = 0
        self._load()

    def _load(self) -> None:
        """Find the thumbnails of earlier runs."""
        with suppress(OSError):
            found = [(FILE_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
            named = [(int(name[1]), tuple(name[2].split("-")[1:]), path) for name, path in found if name]
            for step, fingerprints, path in sorted(named):
                self._add(step, _ThumbnailFile(path, fingerprints, path.stat().st_size))

    def _add(self, step: int, file: _ThumbnailFile) -> None:
        self._files[step] = file
        self._bytes += file.size
        for one in file.fingerprints:
            self._steps[one] = step

    @property
    def full(self) -> bool:
        """Whether a limit is exceeded, so that some must be pruned."""
        return len(self._files) > self._max_count or self._bytes > self._max_bytes

    def __len__(self) -> int:
        return len(self._files)

    def steps(self) -> frozenset[int]:
        """Return the steps that have a thumbnail."""
        with self._lock:
            return frozenset(self._files)

    def save(self, step: int, sample: Sample, pixels: NDArray[np.uint8]) -> None:
        """Write the thumbnail of one step.

        Args:
            step: number of the step.
            sample: its features.
            pixels: what the encoder saw [height, width, 3].
        """
        image = Image.fromarray(pixels)
        image.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
        jpeg = io.BytesIO()
        image.save(jpeg, "JPEG", quality=JPEG_QUALITY)
        fingerprints = tuple(fingerprint(row) for row in (sample.plain, sample.aux) if row is not None)
        path = self._folder / f"{'-'.join((str(step), *fingerprints))}.jpg"
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)  # without parents: a deleted stream stays deleted
            partial = path.with_suffix(".partial")
            partial.write_bytes(jpeg.getvalue())
            partial.replace(path)
            with self._lock:
                self._add(step, _ThumbnailFile(path, fingerprints, jpeg.tell()))

    def read(self, step: int) -> bytes | None:
        """Return the JPEG of a step, or None if there is none."""
        with self._lock:
            file = self._files.get(step)
        if file is None:
            return None
        try:
            return file.path.read_bytes()
        except OSError:
            return None

    def find_steps(self, features: Iterable[Array]) -> list[int | None]:
        """Return, for each feature row, the step whose thumbnail has these features."""
        with self._lock:
            return [self._steps.get(fingerprint(row)) for row in features]

    def prune(self, used: frozenset[str]) -> None:
        """Delete the oldest thumbnails, those with a fingerprint in `used` last."""
        with self._lock:
            order = sorted(self._files, key=lambda step: (not used.isdisjoint(self._files[step].fingerprints), step))
            for step in order:
                if len(self._files) <= PRUNED_SHARE * self._max_count and self._bytes <= PRUNED_SHARE * self._max_bytes:
                    return
                file = self._files.pop(step)
                self._bytes -= file.size
                for one in file.fingerprints:
                    if self._steps.get(one) == step:
                        del self._steps[one]
                with suppress(OSError):
                    file.path.unlink()
