"""A tokenizer of whole words, for models with a small vocabulary. An unknown word is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import EncoderError, InputError

FILE = "words.json"


class WordTokenizer:
    """Turns sentences into rows of word numbers, padded with zeros to the model's context.

    The file has `words` and `classes`. The index of a word in `words` is its number; index 0 is padding. The error for
    an unknown word lists `classes`.
    """

    kind = "words"
    pad = 0

    def __init__(self, folder: Path, context: int) -> None:
        self.folder, self.context = folder, context
        try:
            vocabulary = json.loads((folder / FILE).read_text(encoding="utf-8"))
            self._numbers = {str(word): number for number, word in enumerate(vocabulary["words"])}
            self._classes = ", ".join(map(str, vocabulary["classes"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EncoderError(f"{str(folder / FILE)!r} is missing or damaged: {error}.") from error

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return [T, context]; an unknown word is refused."""
        rows = np.zeros((len(texts), self.context), np.int64)
        for row, text in zip(rows, texts, strict=True):
            words = re.findall(r"[^\W_]+", text.lower())
            unknown = [word for word in words if word not in self._numbers]
            if unknown:
                raise InputError(
                    f"the embedded model does not know the word {unknown[0]!r}; its classes are {self._classes}. "
                    "For other classes use a full encoder, such as hf:openai/clip-vit-base-patch16 "
                    "(--clip on the command line); see `cosmic encoders`."
                )
            if not 0 < len(words) <= self.context:
                raise InputError(f"the embedded model takes 1 to {self.context} words; given {text!r:.80}.")
            row[: len(words)] = [self._numbers[word] for word in words]
        return rows
