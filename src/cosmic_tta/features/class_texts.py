"""Features of classes, from their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.errors import InputError

BATCH = 256  # sentences encoded at once


class TextEncoder(Protocol):
    """Anything that encodes sentences as unit rows."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, D]."""
        ...


def text_features(encoder: TextEncoder, texts: Sequence[Sequence[str]], *, batch: int = BATCH) -> Array:
    """Encode the sentences of each class, average their unit rows, and normalise the means.

    Args:
        encoder: Encodes the sentences.
        texts: The sentences of each class, as `class_sentences` returns them.
        batch: Sentences encoded at once.

    Returns:
        Unit rows [K, D], one per class.

    Raises:
        InputError: A class has no sentence, or its sentences have no mean direction.

    Examples:
        >>> from cosmic_tta.encoders import make_clip
        >>> text_features(make_clip("mini:clip"), [["a photo of a cat."], ["a dog", "a puppy"]]).shape
        (2, 128)
    """
    if isinstance(texts, str) or not texts or any(isinstance(own, str) or not own for own in texts):
        raise InputError("texts must hold at least one class, each with at least one sentence; see class_sentences.")
    sentences = [sentence for own in texts for sentence in own]
    blocks = []
    for start in range(0, len(sentences), batch):
        block = sentences[start : start + batch]
        rows = as_float32(encoder.encode_texts(block))
        if rows.ndim != 2 or len(rows) != len(block):
            raise InputError(f"the text encoder gave an array {list(rows.shape)} for {len(block)} sentences.")
        blocks.append(rows)
    rows = unit(np.concatenate(blocks))
    ends = np.cumsum([len(own) for own in texts])
    means = [rows[end - len(own) : end].mean(axis=0) for own, end in zip(texts, ends, strict=True)]
    features = unit(as_float32(means))
    invalid = np.flatnonzero(~(np.abs(np.linalg.norm(features, axis=1) - 1) < 1e-3))
    if len(invalid):
        number = int(invalid[0])
        raise InputError(f"the sentences of class {number} have no mean direction: {list(texts[number])[:3]}.")
    return features
