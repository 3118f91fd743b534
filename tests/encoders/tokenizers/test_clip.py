"""Our CLIP tokenizer against transformers' own, and the cleaning of SigLIP's sentences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer, byte_letters, words

transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch

SENTENCES = [
    *tiny.SAMPLES,
    "A PHOTO of the cat's photo!!! (no. 12345)",
    "we'll they've I'm you'd it's don't 're 'LL o'clock rock'n'roll",
    "tabs\tand\nlines  and\u00a0hard\u2003spaces\u3000",
    "combining e\u0301 and Å \u212b ﬁ Ⅷ ½ ² ٣ ೬",
    "ΟΔΥΣΣΕΥΣ İstanbul ẞ ΣΑΣ",
    "emoji 👩‍👩‍👧 🏳️‍🌈 \u200b zero width",
    "<|startoftext|> inside <|endoftext|> the text <|ENDOFTEXT|>",
    "___snake_case--dash...dots???",
    "日本語 한국어 العربية हिन्दी ไทย",
    "\x00\x01\x1c\x1f\x7f\x85 controls",
    "#version not a comment",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny.write_clip_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> object:
    return transformers.CLIPTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", SENTENCES)
def test_numbers_are_those_of_transformers(folder: Path, theirs: object, text: str) -> None:
    wanted = theirs(text, padding="max_length", max_length=77, truncation=True)["input_ids"]  # type: ignore[operator]
    assert ClipTokenizer.read(folder)([text])[0].tolist() == wanted


LETTERS = st.characters(min_codepoint=0, max_codepoint=0x2FFFF, exclude_categories=["Cs", "Cn", "Co"])


def test_numbers_of_any_sentence_are_those_of_transformers(folder: Path, theirs: object) -> None:
    ours = ClipTokenizer.read(folder)

    @given(st.text(LETTERS | st.sampled_from("the cat's photo '12 "), max_size=40))
    def check(text: str) -> None:
        wanted = theirs(text, padding="max_length", max_length=77, truncation=True)["input_ids"]  # type: ignore[operator]
        assert ours([text])[0].tolist() == wanted

    check()


def test_a_tokenizer_json_gives_the_same_numbers(folder: Path, theirs: object, tmp_path: Path) -> None:
    theirs.save_pretrained(tmp_path)  # type: ignore[attr-defined]
    assert (tmp_path / "tokenizer.json").is_file()
    assert not (tmp_path / "vocab.json").is_file()
    np.testing.assert_array_equal(ClipTokenizer.read(tmp_path)(SENTENCES), ClipTokenizer.read(folder)(SENTENCES))


def test_rows_start_end_and_are_cut_with_their_end(folder: Path) -> None:
    tokenizer = ClipTokenizer.read(folder, context=8)
    rows = tokenizer(["cat", "the cat of the cat of the cat of", ""])
    assert rows.shape == (3, 8)
    assert rows.dtype == np.int64
    assert rows[:, 0].tolist() == [524] * 3
    assert rows[:, -1].tolist() == [525] * 3
    assert rows[2].tolist() == [524] + [525] * 7
    assert 525 not in rows[1, :-1].tolist()


def test_every_byte_has_a_letter_of_its_own() -> None:
    letters = byte_letters()
    assert sorted(letters) == list(range(256))
    assert len(set(letters.values())) == 256
    assert letters[ord("a")] == "a"
    assert list(words("  ")) == []


def test_a_vocabulary_without_start_and_end_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0}))
    shutil.copy(folder / "merges.txt", tmp_path)
    with pytest.raises(EncoderError, match="not CLIP's tokenizer"):
        ClipTokenizer.read(tmp_path)
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(EncoderError, match="missing or damaged"):
        ClipTokenizer.read(tmp_path)
