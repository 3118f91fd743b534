from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cosmic_tta.datasets import CATALOGUE
from cosmic_tta.errors import InputError, UnknownNameError
from cosmic_tta.prompts import (
    ENSEMBLE,
    TEMPLATES,
    class_texts,
    named_templates,
    read_class_names,
    read_descriptions,
    spoken,
    text_features,
)


class Tower:
    """A text tower whose features tell the sentences apart."""

    def __init__(self, dim: int = 6) -> None:
        self.dim, self.asked = dim, [0]

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(len(texts))
        rows = [np.random.default_rng(list(text.encode())).standard_normal(self.dim) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32)


def test_the_paper_has_a_set_of_templates_for_each_data_set(shared: Path) -> None:
    """Compare with the table in the paper's own source."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in (shared / "paper").glob("*.txt"))
    table = text[text.index("Textual Prompts for Various") : text.index(r"\label{tab:prompts}")]
    told = {}
    for title, prompts in re.findall(r"^\s*([\w-]+)~\\cite\{[^}]*\} & (.*) \\\\", table, flags=re.MULTILINE):
        told[title] = tuple(prompt.replace(r"\{\}", "{}") for prompt in re.findall("“([^”]*)”", prompts))
    assert {row.title: row.templates for row in CATALOGUE.values()} == told


def test_the_sizes_are_those_of_the_paper(shared: Path) -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in (shared / "paper").glob("*.txt"))
    table = text[text.index("Dataset Summary for Various") : text.index(r"\label{tab:datasets}")]
    rows = {row.title: row for row in CATALOGUE.values()}
    lines = re.findall(r"^\s*([\w-]+)~\\cite\{[^}]*\} & (.*) \\\\", table, flags=re.MULTILINE)
    assert len(lines) == 15
    for title, cells in lines:
        classes, *sizes, task = cells.split(" & ")
        assert (rows[title].classes, rows[title].task) == (int(classes.replace(",", "")), task.strip())
        for split, size in zip(("train", "val", "test"), sizes, strict=True):
            count = rows[title].sizes.get(split)
            written = "-" if count is None else f"{count / 1e6:.2f}M" if count > 1e6 else f"{count:,}"
            assert written == size


def test_templates_by_name() -> None:
    assert named_templates("ensemble") == ENSEMBLE
    assert len(ENSEMBLE) == 7
    assert named_templates("a sketch of a {}.") == ("a sketch of a {}.",)
    assert all("{}" in template for templates in TEMPLATES.values() for template in templates)
    with pytest.raises(UnknownNameError, match="unknown set of templates 'ensembel': did you mean 'ensemble'"):
        named_templates("ensembel")


def test_classes_become_sentences() -> None:
    texts = class_texts(["Yo_Yo", "missile (n04008634)"], ["a {}.", "{} and {}, {0}"])
    assert texts == [["a Yo Yo.", "Yo Yo and Yo Yo, {0}"], ["a missile.", "missile and missile, {0}"]]


@given(st.lists(st.text(alphabet="ab_ ", min_size=1, max_size=6).filter(lambda name: name.strip("_ ")), min_size=1))
def test_every_class_gets_every_template(names: list[str]) -> None:
    texts = class_texts(names, ENSEMBLE)
    assert [len(own) for own in texts] == [7] * len(names)
    assert all(spoken(name) in own[0] for name, own in zip(names, texts, strict=True))


@pytest.mark.parametrize(
    ("names", "templates", "message"),
    [
        ([], ["a {}."], "at least one name"),
        ("cat", ["a {}."], "at least one name"),
        (["cat"], [], "there is no template"),
        (["cat"], "a {}.", "given the one string"),
        (["cat"], ["a photo of a cat."], re.escape("'a photo of a cat.' has no {} where the class name goes")),
        (["_ "], ["a {}."], "a class name has no word in it: '_ '"),
    ],
)
def test_what_cannot_become_sentences(names: Sequence[str], templates: Sequence[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        class_texts(names, templates)


def test_descriptions_join_or_replace_the_templates() -> None:
    said: list[str] = []
    told = {"Polar Bear": ["It is white.", "It swims."], "cat": ["It purrs."]}
    names = ["polar_bear", "cat", "newt"]
    texts = class_texts(names, ["a {}."], told, say=said.append)
    assert texts == [["a polar bear.", "It is white.", "It swims."], ["a cat.", "It purrs."], ["a newt."]]
    assert said == ["1 of 3 classes have no description and keep to the templates: 'newt'."]
    texts = class_texts(names, ["a {}."], told, alone=True, say=said.append)
    assert texts == [["It is white.", "It swims."], ["It purrs."], ["a newt."]]
    with pytest.warns(UserWarning, match="keep to the templates"):
        class_texts(names, ["a {}."], told)


def test_descriptions_of_strangers() -> None:
    told = {"polar bears": ["x"], "cat": ["It purrs."]}
    with pytest.raises(
        InputError, match="speak of 'polar bears', .* did you mean 'polar_bear'.* 1 of 2; take them out"
    ):
        class_texts(["polar_bear", "cat"], ["{}"], told)
    assert class_texts(["cat"], ["{}"], told, others=True) == [["cat", "It purrs."]]
    with pytest.raises(InputError, match="speak of 'x'"):
        class_texts(["cat"], ["{}"], {"x": ["y"]}, others=True)
    with pytest.raises(InputError, match="there are no descriptions"):
        class_texts(["cat"], ["{}"], {})


def test_descriptions_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cupl.json"
    file.write_text(json.dumps({"cat": ["It purrs. ", "It sleeps."]}))
    assert read_descriptions(file) == {"cat": ("It purrs.", "It sleeps.")}
    for wrong, message in (
        ("[]", "must be an object"),
        ("{}", "must be an object"),
        ('{"cat": "It purrs."}', "descriptions of 'cat' must be a list of non-empty strings"),
        ('{"cat": [" "]}', "descriptions of 'cat' must be a list of non-empty strings"),
        ("{", "is no JSON"),
    ):
        file.write_text(wrong)
        with pytest.raises(InputError, match=message):
            read_descriptions(file)
    with pytest.raises(InputError, match="descriptions cannot be read from"):
        read_descriptions(tmp_path / "nowhere.json")


def test_class_names_from_a_file(tmp_path: Path) -> None:
    text, told = tmp_path / "names.txt", tmp_path / "names.json"
    text.write_text("cat\r\n\r\n polar bear \n", encoding="utf-8-sig")
    assert read_class_names(text).names == ("cat", "polar bear")
    assert read_class_names(text).keys is None
    text.write_text("n01440764 tench\nn01443537 goldfish, carp\n")
    assert read_class_names(text).names == ("tench", "goldfish, carp")
    assert read_class_names(text).keys == ("n01440764", "n01443537")
    told.write_text('["cat", "dog"]')
    assert read_class_names(told).names == ("cat", "dog")
    told.write_text('{"n2": "cat", "n1": "dog"}')
    assert read_class_names(told).names == ("cat", "dog")
    assert read_class_names(told).keys == ("n2", "n1")
    for wrong, message in (
        ("[1]", "must be a list of strings"),
        ('["a", ""]', "an empty class name"),
        ("[]", "no class name"),
    ):
        told.write_text(wrong)
        with pytest.raises(InputError, match=message):
            read_class_names(told)
    text.write_text("n01440764 tench\nn01440764 goldfish\n")
    with pytest.raises(InputError, match="the same key stands in it more than once"):
        read_class_names(text)
    text.write_bytes(b"\xff\xfe\x00c")
    with pytest.raises(InputError, match="it is not UTF-8 text"):
        read_class_names(text)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_text_features_are_unit_means_of_unit_rows(batch: int) -> None:
    tower, texts = Tower(), [["a", "b", "c"], ["d"], ["e", "f"]]
    features = text_features(tower, texts, batch=batch)
    assert features.dtype == np.float32
    assert features.shape == (3, 6)
    assert max(tower.asked) <= batch
    for row, own in zip(features, texts, strict=True):
        mean = Tower().encode_texts(own).astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


class Odd:
    def __init__(self, rows: object) -> None:
        self.rows = rows

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array(self.rows, np.float32)


def test_what_cannot_become_features() -> None:
    for texts in ([], [["a"], []], ["a"], "a"):
        with pytest.raises(InputError, match="at least one class, each with at least one sentence"):
            text_features(Tower(), texts)
    with pytest.raises(InputError, match=r"gave an array \[1, 2\] for 2 sentences"):
        text_features(Odd([[1, 0]]), [["a", "b"]])
    with pytest.raises(InputError, match="class 0 add up to no direction"):
        text_features(Odd([[1, 0], [-1, 0]]), [["a", "b"]])
    with pytest.raises(InputError, match="class 1 add up to no direction"):
        text_features(Odd([[1, 0], [np.nan, 0]]), [["a"], ["b"]])
