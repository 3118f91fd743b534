from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders.tokenizers.hf_file import FileTokenizer, cleaned

tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


def test_siglip_sentences_are_cleaned_as_its_tokenizer_class_says(tmp_path: Path) -> None:
    tiny.write_siglip_tokenizer(tmp_path)
    first = FileTokenizer(tmp_path, 12)
    assert first.clean == "canonical"
    settings = {"tokenizer_class": "GemmaTokenizerFast", "pad_token": {"content": "<pad>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    second = FileTokenizer(tmp_path, 12)
    assert second.clean == "lower"
    assert second.pad == 0
    assert first(["A Cat."])[0].tolist() == [3, 6, *[1] * 10]
    assert second(["A Cat"])[0].tolist() == [3, 6, 1, *[0] * 9]
    assert first([]).shape == (0, 12)
    assert cleaned("As Is!", "none") == "As Is!"


def test_a_siglip_tokenizer_that_is_damaged_or_cannot_pad_is_refused(tmp_path: Path) -> None:
    tiny.write_siglip_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<nothing>"}))
    with pytest.raises(EncoderError, match="no token '<nothing>' to pad with"):
        FileTokenizer(tmp_path, 12)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match="is damaged"):
        FileTokenizer(tmp_path, 12)
