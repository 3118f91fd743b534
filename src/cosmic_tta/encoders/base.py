"""The protocols of encoders, whatever library runs them.

An image encoder turns eight-bit pixels into unit rows; its own preprocessing has resized and cropped them.
A CLIP-like encoder also turns sentences into unit rows of the same space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.preprocess import Preprocessing

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "float16", "bfloat16")
KINDS = ("clip", "image")
TEXT_BATCH = 256  # all sentences of a data set at once may not fit into memory


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of the last layer, for attention maps; every token has length one.

    Args:
        summary: The class token, or the pooled feature if there is none: [B, width].
        patches: The tokens of the patches: [B, rows, columns, width].

    Examples:
        >>> from cosmic_tta.encoders import make_encoder
        >>> make_encoder("mini:dino").tokens(np.zeros((1, 32, 32, 3), np.uint8)).patches.shape
        (1, 4, 4, 256)
    """

    summary: NDArray[np.float32]
    patches: NDArray[np.float32]


@dataclass(frozen=True)
class EncoderOptions:
    """The options of `make_encoder`."""

    device: str = "auto"
    dtype: str = "auto"
    kind: str | None = None  # `clip` needs a text tower, `image` needs none
    threads: int | None = None


class Encoder(Protocol):
    """Encodes images as unit rows.

    Attributes:
        name: The name that it was made by: `family:model[,weights]`.
        dim: Width of the features.
        preprocessing: How images become the pixels that it takes.

    Examples:
        >>> from cosmic_tta.data import open_image, open_source
        >>> from cosmic_tta.encoders import make_encoder
        >>> encoder = make_encoder("mini:dino")
        >>> image = open_image(open_source("mini").items[0].read())
        >>> encoder.encode(encoder.preprocessing.pixels(image)[None]).shape
        (1, 256)
    """

    name: str
    dim: int
    preprocessing: Preprocessing

    @property
    def fingerprint(self) -> str:
        """Hash of the weights: two encoders with the same one give the same features."""
        ...

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode [B, height, width, 3] as unit rows [B, dim]."""
        ...

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return the tokens of the last layer."""
        ...


@runtime_checkable
class ClipEncoder(Encoder, Protocol):
    """Encodes images and sentences as unit rows of one space.

    Attributes:
        logit_scale: Factor from cosines to logits.

    Examples:
        >>> from cosmic_tta.encoders import make_clip
        >>> clip = make_clip("mini:clip")
        >>> clip.encode_texts(["a photo of a cat.", "a photo of a dog."]).shape, round(clip.logit_scale, 1)
        ((2, 128), 5.4)
    """

    logit_scale: float

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, dim]."""
        ...


def checked_pixels(pixels: Any, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Return eight-bit pixels [B, height, width, 3], contiguous and writable; other arrays are refused."""
    height, width = preprocessing.size
    expected = f"uint8 [B, {height}, {width}, 3], as encoder.preprocessing.pixels makes them, stacked"
    if not isinstance(pixels, np.ndarray):
        raise InputError(f"pixels must be a NumPy array, {expected}; given {type(pixels).__name__}.")
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (height, width, 3):
        raise InputError(f"pixels must be {expected}; given {pixels.dtype} {list(pixels.shape)}.")
    return np.require(pixels, requirements=["C", "W"])


def checked_texts(texts: Any) -> list[str]:
    """Return the sentences as a list; anything else is refused."""
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"texts must be a list of sentences; given {texts!r:.60}.")
    return list(texts)
