"""What every encoder can do, whatever library runs it.

An image encoder turns pixels (eight bits, already resized and cropped by its own preprocessing) into unit rows.
A CLIP-like one turns sentences into unit rows of the same space, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class Tokens:
    """The last layer's tokens of some pictures, for attention maps."""

    summary: NDArray[np.float32]  # [B, width]: the class token, or the pooled feature where there is none
    patches: NDArray[np.float32]  # [B, rows, columns, width]


class Encoder(Protocol):
    """Pictures to unit features."""

    name: str  # as it was asked for: `family:model[,weights]`
    dim: int  # width of the features
    preprocessing: Preprocessing
    fingerprint: str  # of the weights: two encoders with the same one give the same features

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
