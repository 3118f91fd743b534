"""A tokenizer of whole words, for models that know few of them: an unknown word is an error, not a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import EncoderError, InputError

FILE = "words.json"


class WordTokenizer:
    """Sentences to rows of word numbers, filled up with zeros to the model's context.

    The file holds `words`, a list whose places are the numbers (place 0 stands for none), and `classes`, those that
    a message names.
    """

    kind = "words"
    pad = 0

    def __init__(self, folder: Path, context: int) -> None:
        self.folder, self.context = folder, context
        try:
            told = json.loads((folder / FILE).read_text(encoding="utf-8"))
            self._numbers = {str(word): number for number, word in enumerate(told["words"])}
            self._classes = ", ".join(map(str, told["classes"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EncoderError(f"{str(folder / FILE)!r} is missing or damaged: {error}.") from error

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return [T, context]; a word that the model has never seen is refused."""
        rows = np.zeros((len(texts), self.context), np.int64)
        for row, text in zip(rows, texts, strict=True):
            words = re.findall(r"[^\W_]+", text.lower())
            unknown = [word for word in words if word not in self._numbers]
            if unknown:
                raise InputError(
                    f"this small model has never seen the word {unknown[0]!r}; it knows {self._classes}, and little "
                    "else. For other classes take a real encoder, such as hf:openai/clip-vit-base-patch16 "
                    "(--clip on the command line); see `cosmic encoders`."
                )
            if not 0 < len(words) <= self.context:
                raise InputError(f"a sentence has 1 to {self.context} words for this small model; given {text!r:.80}.")
            row[: len(words)] = [self._numbers[word] for word in words]
        return rows
