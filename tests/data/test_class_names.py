from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.data.class_names import as_words, disambiguate, read_class_names


def test_class_names_from_a_file(tmp_path: Path) -> None:
    text_file, json_file = tmp_path / "names.txt", tmp_path / "names.json"
    text_file.write_text("cat\r\n\r\n polar bear \n", encoding="utf-8-sig")
    assert read_class_names(text_file).names == ("cat", "polar bear")
    assert read_class_names(text_file).keys is None
    text_file.write_text("n01440764 tench\nn01443537 goldfish, carp\n")
    assert read_class_names(text_file).names == ("tench", "goldfish, carp")
    assert read_class_names(text_file).keys == ("n01440764", "n01443537")
    json_file.write_text('["cat", "dog"]')
    assert read_class_names(json_file).names == ("cat", "dog")
    json_file.write_text('{"n2": "cat", "n1": "dog"}')
    assert read_class_names(json_file).names == ("cat", "dog")
    assert read_class_names(json_file).keys == ("n2", "n1")
    for wrong, message in (
        ("[1]", "must be a list of strings"),
        ('["a", ""]', "an empty class name"),
        ("[]", "no class name"),
    ):
        json_file.write_text(wrong)
        with pytest.raises(InputError, match=message):
            read_class_names(json_file)
    text_file.write_text("n01440764 tench\nn01440764 goldfish\n")
    with pytest.raises(InputError, match="has the same key more than once"):
        read_class_names(text_file)
    text_file.write_bytes(b"\xff\xfe\x00c")
    with pytest.raises(InputError, match="it is not UTF-8 text"):
        read_class_names(text_file)


def test_names_of_several_classes_get_their_wordnet_ids() -> None:
    names, keys = ("crane", "cat", "crane"), ("n02012849", "n02121808", "n03126707")
    assert disambiguate(names, keys) == ("crane (n02012849)", "cat", "crane (n03126707)")
    assert disambiguate(names, ("a", "b", "c")) == names  # only WordNet ids are added
    assert disambiguate(names, None) == names
    assert [as_words(name) for name in disambiguate(names, keys)] == list(names)
