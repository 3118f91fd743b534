"""CLIP's tokenizer: byte-level byte-pair encoding, in plain Python.

It reads the published vocab.json and merges.txt, or a tokenizer.json that holds both. It gives the same numbers as
CLIPTokenizer of transformers. (R. Sennrich, B. Haddow, A. Birch: Neural machine translation of rare words with
subword units, ACL 2016; A. Radford et al.: Learning transferable visual models from natural language supervision,
ICML 2021.)
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import EncoderError

START, END, LAST = "<|startoftext|>", "<|endoftext|>", "</w>"
SPECIAL = re.compile(f"({re.escape(START)}|{re.escape(END)})")
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
# Unicode's White_Space; str.isspace() includes four more control characters.
SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
Pair = tuple[str, str]


def byte_letters() -> dict[int, str]:
    """Return the letter that represents each byte: itself if it is printable, else one from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + rank) for rank, byte in enumerate(others)}


class ClipTokenizer:
    """Turns sentences into rows of token numbers: start, at most context - 2 tokens, end, then end as padding."""

    kind = "clip"

    def __init__(
        self, vocabulary: Mapping[str, int], merges: Sequence[Pair], context: int = 77, folder: Path | None = None
    ) -> None:
        missing = [token for token in (START, END) if token not in vocabulary]
        if missing:
            raise EncoderError(f"the vocabulary has no {' and no '.join(missing)}: it is not CLIP's tokenizer.")
        self.context, self.folder = context, folder
        self.end = self.pad = vocabulary[END]
        self.start = vocabulary[START]
        self._vocabulary = vocabulary
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._letters = byte_letters()
        self._word = lru_cache(maxsize=65_536)(self._encode_word)

    @classmethod
    def read(cls, folder: Path, context: int = 77) -> ClipTokenizer:
        """Read vocab.json and merges.txt, or tokenizer.json, from a folder."""
        try:
            if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
                vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
                lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
                merges: list[Any] = [line.split() for line in lines if line.strip() and not line.startswith("#version")]
            else:
                whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
                if whole["model"].get("end_of_word_suffix") != LAST:
                    raise EncoderError(f"{str(folder / 'tokenizer.json')!r} is not CLIP's tokenizer (no {LAST!r}).")
                added = {token["content"]: token["id"] for token in whole.get("added_tokens", [])}
                vocabulary = whole["model"]["vocab"] | added
                merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in whole["model"]["merges"]]
            pairs = [(left, right) for left, right in merges]
            return cls(vocabulary, pairs, context, folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, EncoderError):
                raise
            raise EncoderError(f"the tokenizer in {str(folder)!r} is missing or damaged: {error}") from error

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return [T, context]; long sentences are truncated and keep their end token."""
        rows = np.full((len(texts), self.context), self.end, np.int64)
        for row, text in zip(rows, texts, strict=True):
            numbers = [self.start, *self.numbers(text)][: self.context - 1]
            row[: len(numbers)] = numbers
        return rows

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a sentence's tokens, without start and end."""
        numbers: list[int] = []
        for piece in SPECIAL.split(text):
            if piece in (START, END):
                numbers.append(self._vocabulary[piece])
                continue
            normalised = unicodedata.normalize("NFC", piece)
            # Letter by letter: lower() of a whole word changes a final sigma differently.
            lower = "".join(letter.lower() for letter in normalised)
            numbers += [number for word in words(lower) for number in self._word(word)]
        return numbers

    def _encode_word(self, word: str) -> tuple[int, ...]:
        letters = [self._letters[byte] for byte in word.encode("utf-8", "replace")]
        parts = [*letters[:-1], letters[-1] + LAST]
        while len(parts) > 1:
            pair = min(pairwise(parts), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if pair not in self._ranks:
                break
            parts = _merge(parts, pair)
        return tuple(self._vocabulary.get(part, self.end) for part in parts)


def _merge(parts: list[str], pair: Pair) -> list[str]:
    """Join every occurrence of a pair, from the left."""
    merged, index = [], 0
    while index < len(parts):
        if tuple(parts[index : index + 2]) == pair:
            merged.append(pair[0] + pair[1])
            index += 2
        else:
            merged.append(parts[index])
            index += 1
    return merged


def words(text: str) -> Iterator[str]:
    """Split into contractions, runs of letters, single digits and runs of other characters, without spaces.

    >>> list(words("it's 3 o'clock!?"))
    ['it', "'s", '3', 'o', "'", 'clock', '!?']
    """
    start = 0
    while start < len(text):
        contraction = next((token for token in CONTRACTIONS if text.startswith(token, start)), None)
        kind = _kind(text[start])
        end = start + 1
        if contraction is not None:
            end = start + len(contraction)
        elif kind in "L*":
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        if kind != " ":
            yield text[start:end]
        start = end


def _kind(letter: str) -> str:
    """Return L for a letter, N for a number, a space for white space, * for anything else."""
    if letter in SPACES:
        return " "
    category = unicodedata.category(letter)[0]
    return category if category in "LN" else "*"
