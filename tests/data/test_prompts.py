from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.core.errors import InputError, UnknownNameError
from cosmic_tta.data.class_names import as_words
from cosmic_tta.data.datasets import CATALOGUE
from cosmic_tta.data.prompts import ENSEMBLE, TEMPLATES, class_sentences, find_templates, read_descriptions


def test_the_paper_has_a_set_of_templates_for_each_data_set(paper_source: str) -> None:
    """Compare with the table in the paper's own source."""
    table = paper_source[paper_source.index("Textual Prompts for Various") : paper_source.index(r"\label{tab:prompts}")]
    templates = {}
    for title, prompts in re.findall(r"^\s*([\w-]+)~\\cite\{[^}]*\} & (.*) \\\\", table, flags=re.MULTILINE):
        templates[title] = tuple(prompt.replace(r"\{\}", "{}") for prompt in re.findall("“([^”]*)”", prompts))
    assert {row.title: row.templates for row in CATALOGUE.values()} == templates


def test_templates_by_name() -> None:
    assert find_templates("ensemble") == ENSEMBLE
    assert len(ENSEMBLE) == 7
    assert find_templates("a sketch of a {}.") == ("a sketch of a {}.",)
    assert all("{}" in template for templates in TEMPLATES.values() for template in templates)
    with pytest.raises(UnknownNameError, match="unknown set of templates 'ensembel': did you mean 'ensemble'"):
        find_templates("ensembel")


def test_classes_become_sentences() -> None:
    texts = class_sentences(["Yo_Yo", "missile (n04008634)"], ["a {}.", "{} and {}, {0}"])
    assert texts == [["a Yo Yo.", "Yo Yo and Yo Yo, {0}"], ["a missile.", "missile and missile, {0}"]]


@given(st.lists(st.text(alphabet="ab_ ", min_size=1, max_size=6).filter(lambda name: name.strip("_ ")), min_size=1))
def test_every_class_gets_every_template(names: list[str]) -> None:
    texts = class_sentences(names, ENSEMBLE)
    assert [len(own) for own in texts] == [7] * len(names)
    assert all(as_words(name) in own[0] for name, own in zip(names, texts, strict=True))


@pytest.mark.parametrize(
    ("names", "templates", "message"),
    [
        ([], ["a {}."], "at least one name"),
        ("cat", ["a {}."], "at least one name"),
        (["cat"], [], "there is no template"),
        (["cat"], "a {}.", "given the one string"),
        (["cat"], ["a photo of a cat."], re.escape("'a photo of a cat.' has no {} in place of the class name")),
        (["_ "], ["a {}."], "a class name has no word in it: '_ '"),
    ],
)
def test_what_cannot_become_sentences(names: Sequence[str], templates: Sequence[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        class_sentences(names, templates)


def test_descriptions_join_or_replace_the_templates() -> None:
    warnings: list[str] = []
    descriptions = {"Polar Bear": ["It is white.", "It swims."], "cat": ["It purrs."]}
    names = ["polar_bear", "cat", "newt"]
    texts = class_sentences(names, ["a {}."], descriptions, warn=warnings.append)
    assert texts == [["a polar bear.", "It is white.", "It swims."], ["a cat.", "It purrs."], ["a newt."]]
    assert warnings == ["1 of 3 classes have no description and use only the templates: 'newt'."]
    texts = class_sentences(names, ["a {}."], descriptions, descriptions_only=True, warn=warnings.append)
    assert texts == [["It is white.", "It swims."], ["It purrs."], ["a newt."]]
    with pytest.warns(UserWarning, match="use only the templates"):
        class_sentences(names, ["a {}."], descriptions)


def test_descriptions_of_strangers() -> None:
    descriptions = {"polar bears": ["x"], "cat": ["It purrs."]}
    with pytest.raises(InputError, match="name 'polar bears', .* did you mean 'polar_bear'.* 1 of 2; remove them"):
        class_sentences(["polar_bear", "cat"], ["{}"], descriptions)
    assert class_sentences(["cat"], ["{}"], descriptions, allow_unknown=True) == [["cat", "It purrs."]]
    with pytest.raises(InputError, match="name 'x'"):
        class_sentences(["cat"], ["{}"], {"x": ["y"]}, allow_unknown=True)
    with pytest.raises(InputError, match="there are no descriptions"):
        class_sentences(["cat"], ["{}"], {})


def test_descriptions_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cupl.json"
    file.write_text(json.dumps({"cat": ["It purrs. ", "It sleeps."]}))
    assert read_descriptions(file) == {"cat": ("It purrs.", "It sleeps.")}
    for wrong, message in (
        ("[]", "must be an object"),
        ("{}", "must be an object"),
        ('{"cat": "It purrs."}', "descriptions of 'cat' must be a list of non-empty strings"),
        ('{"cat": [" "]}', "descriptions of 'cat' must be a list of non-empty strings"),
        ("{", "is not valid JSON"),
    ):
        file.write_text(wrong)
        with pytest.raises(InputError, match=message):
            read_descriptions(file)
    with pytest.raises(InputError, match="descriptions cannot be read from"):
        read_descriptions(tmp_path / "nowhere.json")
