from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_tta.core.errors import EncoderError, InputError
from cosmic_tta.encoders.tokenizers.words import WordTokenizer


@pytest.fixture
def tokenizer(tmp_path: Path) -> WordTokenizer:
    (tmp_path / "words.json").write_text(json.dumps({"words": ["", "a", "cat", "photo"], "classes": ["cat"]}))
    return WordTokenizer(tmp_path, 4)


def test_sentences_become_padded_rows(tokenizer: WordTokenizer) -> None:
    assert tokenizer(["A photo!", "a_cat"]).tolist() == [[1, 3, 0, 0], [1, 2, 0, 0]]
    assert tokenizer([]).shape == (0, 4)


def test_unknown_words_and_wrong_lengths_are_refused(tokenizer: WordTokenizer) -> None:
    with pytest.raises(InputError, match="does not know the word 'zebra'; its classes are cat"):
        tokenizer(["a zebra"])
    for text in ("", "a a a a a"):
        with pytest.raises(InputError, match="takes 1 to 4 words"):
            tokenizer([text])


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"words": ["a"]}'):
        (tmp_path / "words.json").write_text(content)
        with pytest.raises(EncoderError, match="is missing or damaged"):
            WordTokenizer(tmp_path, 4)
