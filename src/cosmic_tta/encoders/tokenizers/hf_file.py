"""Tokenizers of tokenizer.json files, run by the package `tokenizers`.

SigLIP was trained on lower-case sentences, and SigLIP 1 without punctuation. `clean` says which of the two is done;
it does not matter if the file does it again.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import EncoderError

Clean = Literal["none", "lower", "canonical"]
FILES = ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def cleaned(text: str, clean: Clean) -> str:
    """Return a sentence in the form that the model was trained on.

    >>> cleaned("A photo of  a CAT.", "canonical")
    'a photo of a cat'
    """
    if clean == "none":
        return text
    text = text.lower()
    return " ".join(text.translate(PUNCTUATION).split()) if clean == "canonical" else text


class FileTokenizer:
    """Turns sentences into rows of token numbers, padded to the model's full context."""

    kind = "file"

    def __init__(self, folder: Path, context: int) -> None:
        file = folder / "tokenizer.json"
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EncoderError(f"{str(file)!r} needs the package tokenizers: pip install tokenizers.") from error
        if not file.is_file():
            raise EncoderError(
                f"{str(file)!r} is missing, so no sentence can be encoded; add it with `hf download` of the "
                "same model, or use the encoder for images only."
            )
        settings = _settings(folder)
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the package raises bare Exception
            raise EncoderError(f"{str(file)!r} is damaged: {error}") from error
        pad = _token(settings.get("pad_token"), "</s>")
        number = self._tokenizer.token_to_id(pad)
        if number is None:
            raise EncoderError(f"{str(file)!r} has no token {pad!r} to pad with; see tokenizer_config.json.")
        side = settings.get("padding_side", "right")
        self._tokenizer.enable_truncation(context)
        self._tokenizer.enable_padding(length=context, pad_id=number, pad_token=pad, direction=side)
        self.folder, self.context, self.pad = folder, context, int(number)
        # The tokenizer of SigLIP 1 removes punctuation; that of SigLIP 2 only lowers.
        self.clean: Clean = "canonical" if "siglip" in _name(settings) and "siglip2" not in _name(settings) else "lower"

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return [T, context]."""
        encoded = self._tokenizer.encode_batch([cleaned(text, self.clean) for text in texts])
        return np.array([row.ids for row in encoded], np.int64).reshape(len(texts), self.context)


def _settings(folder: Path) -> dict[str, Any]:
    file = folder / "tokenizer_config.json"
    try:
        settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (OSError, ValueError) as error:
        raise EncoderError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    return settings if isinstance(settings, dict) else {}


def _name(settings: dict[str, Any]) -> str:
    return str(settings.get("tokenizer_class", "")).lower()


def _token(setting: Any, default: str) -> str:
    """Return a special token that is given as a string or as a dict with its content."""
    value = setting.get("content") if isinstance(setting, dict) else setting
    return value if isinstance(value, str) else default
