"""What every encoder can do, whatever library runs it.

An image encoder turns pixels (eight bits, already resized and cropped by its own preprocessing) into unit rows.
A CLIP-like one turns sentences into unit rows of the same space, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import InputError
from cosmic_tta.preprocessing import Preprocessing

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "float16", "bfloat16")
KINDS = ("clip", "image")
TEXTS_AT_ONCE = 256  # sentences in one pass: a data set's templates times its classes would not fit


@dataclass(frozen=True, eq=False)
class Tokens:
    """The last layer's tokens of some pictures, for attention maps; every token has length one."""

    summary: NDArray[np.float32]  # [B, width]: the class token, or the pooled feature where there is none
    patches: NDArray[np.float32]  # [B, rows, columns, width]


@dataclass(frozen=True)
class Options:
    """How an encoder is to run: where, in which numbers, with a text tower or without, on how many threads."""

    device: str = "auto"
    dtype: str = "auto"
    kind: str | None = None
    threads: int | None = None


class Encoder(Protocol):
    """Pictures to unit features."""

    name: str  # as it was asked for: `family:model[,weights]`
    dim: int  # width of the features
    preprocessing: Preprocessing

    @property
    def fingerprint(self) -> str:
        """Of the weights: two encoders with the same one give the same features."""
        ...

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode [B, height, width, 3] as unit rows [B, dim]."""
        ...

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return the tokens of the last layer."""
        ...


@runtime_checkable
class ClipEncoder(Encoder, Protocol):
    """Pictures and sentences to unit features of one space."""

    logit_scale: float

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, dim]."""
        ...


def checked_pixels(pixels: Any, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return [B, height, width, 3] in eight bits, contiguous and writable, or refuse what was given."""
    height, width = preprocessing.size
    form = f"uint8 [B, {height}, {width}, 3], as encoder.preprocessing.pixels makes them, stacked"
    if not isinstance(pixels, np.ndarray):
        raise InputError(f"pixels must be a NumPy array, {form}; given {type(pixels).__name__}.")
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (height, width, 3):
        raise InputError(f"pixels must be {form}; given {pixels.dtype} {list(pixels.shape)}.")
    return np.require(pixels, requirements=["C", "W"])


def checked_texts(texts: Any) -> list[str]:
    """Return the sentences as a list, or refuse what is none."""
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"texts must be a list of sentences; given {texts!r:.60}.")
    return list(texts)
