"""Small pictures of what a stream was shown, so that people see what sits in its caches.

They lie in the stream's folder, named by the step and by fingerprints of the features: no word of a client is part of
a path. A slot of a cache finds its picture by its features, whatever was rolled back or undone. They are a comfort,
not a record: bounded in number and bytes, never synced, and a disk that refuses them harms nothing.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core import Sample
from cosmic_tta.ops import Array

EDGE = 72  # pixels
MOST = 2000  # of one stream
MOST_BYTES = 16 << 20  # of one stream
GRAIN = 64.0  # steps of a fingerprint in one unit
ROOM = 0.9  # what is left of the bounds after pruning
NAME = re.compile(r"(\d{1,18})((?:-[0-9a-f]{16}){1,2})\.jpg")


class _Shown(NamedTuple):
    path: Path
    prints: tuple[str, ...]
    size: int


def fingerprint(feature: Array) -> str:
    """Return a short fingerprint of one feature.

    Coarse, because some methods scale a feature to length one again, which changes its last bits.
    """
    return blake2b(np.rint(feature * GRAIN).astype(np.int16).tobytes(), digest_size=8).hexdigest()


class Thumbnails:
    """The small pictures of one stream. May be used from any thread."""

    def __init__(self, folder: Path, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most, self._most_bytes = folder / "thumbnails", most, most_bytes
        self._lock = threading.Lock()
        self._shown: dict[int, _Shown] = {}
        self._places: dict[str, int] = {}  # fingerprint → step
        self._bytes = 0
        self._find()

    def _find(self) -> None:
        """Take up what is there from before."""
        with suppress(OSError):
            found = [(NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
            for told, path in sorted(((told, path) for told, path in found if told), key=lambda one: int(one[0][1])):
                self._note(int(told[1]), _Shown(path, tuple(told[2].split("-")[1:]), path.stat().st_size))

    def _note(self, number: int, shown: _Shown) -> None:
        self._shown[number] = shown
        self._bytes += shown.size
        for word in shown.prints:
            self._places[word] = number

    @property
    def full(self) -> bool:
        """Whether some must go."""
        return len(self._shown) > self._most or self._bytes > self._most_bytes

    def __len__(self) -> int:
        return len(self._shown)

    def numbers(self) -> frozenset[int]:
        """Return the steps that have one."""
        with self._lock:
            return frozenset(self._shown)

    def keep(self, number: int, sample: Sample, pixels: NDArray[np.uint8]) -> None:
        """Make a small picture of what the encoder saw."""
        picture = Image.fromarray(pixels)
        picture.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=88)
        prints = tuple(fingerprint(one) for one in (sample.plain, sample.aux) if one is not None)
        path = self._folder / f"{'-'.join((str(number), *prints))}.jpg"
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)  # without parents: a stream that is gone stays gone
            half = path.with_suffix(".half")
            half.write_bytes(file.getvalue())
            half.replace(path)
            with self._lock:
                self._note(number, _Shown(path, prints, file.tell()))

    def read(self, number: int) -> bytes | None:
        """Return a step's picture as JPEG, None if there is none."""
        with self._lock:
            shown = self._shown.get(number)
        if shown is None:
            return None
        try:
            return shown.path.read_bytes()
        except OSError:
            return None

    def steps_of(self, features: Iterable[Array]) -> list[int | None]:
        """Return the step whose picture has these features, for each row."""
        with self._lock:
            places: Mapping[str, int] = self._places
            return [places.get(fingerprint(one)) for one in features]

    def prune(self, held: frozenset[str]) -> None:
        """Remove the oldest, those whose features are still held last."""
        with self._lock:
            order = sorted(self._shown, key=lambda number: (not held.isdisjoint(self._shown[number].prints), number))
            for number in order:
                if len(self._shown) <= ROOM * self._most and self._bytes <= ROOM * self._most_bytes:
                    return
                gone = self._shown.pop(number)
                self._bytes -= gone.size
                for word in gone.prints:
                    if self._places.get(word) == number:
                        del self._places[word]
                with suppress(OSError):
                    gone.path.unlink()
