"""Prompts: sentences of the classes, from templates and descriptions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from cosmic_tta.core.errors import InputError, unknown_name
from cosmic_tta.data.class_names import as_words, parse_json, read_text

ENSEMBLE = (
    "a bad photo of the {}.",
    "a {} in a video game.",
    "a origami {}.",
    "a photo of the small {}.",
    "art of the {}.",
    "a photo of the large {}.",
    "itap of a {}.",
)
# By the key of a data set: the prompts of the COSMIC paper (the table of prompts in its supplement).
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "plain": ("a photo of a {}.",),
    "ensemble": ENSEMBLE,
    "caltech101": ("a photo of a {}.",),
    "dtd": ("{} texture.",),
    "eurosat": ("a centered satellite photo of {}.",),
    "fgvc_aircraft": ("a photo of a {}, a type of aircraft.",),
    "flowers102": ("a photo of a {}, a type of flower.",),
    "food101": ("a photo of {}, a type of food.",),
    "oxford_pets": ("a photo of a {}, a type of pet.",),
    "stanford_cars": ("a photo of a {}, a type of car.",),
    "sun397": ENSEMBLE,
    "ucf101": ("a photo of a person doing {}.",),
    "imagenet": ENSEMBLE,
    "imagenet_a": ENSEMBLE,
    "imagenet_v2": ENSEMBLE,
    "imagenet_r": ENSEMBLE,
    "imagenet_sketch": ENSEMBLE,
}


def find_templates(name: str) -> tuple[str, ...]:
    """Return templates by the name of their set, or a template itself.

    Args:
        name: `plain`, `ensemble`, the key of a published data set, or a sentence with `{}`.

    Returns:
        Sentences with `{}` in place of the class name.

    Raises:
        UnknownNameError: There is no such set.

    Examples:
        >>> find_templates("dtd"), find_templates("a drawing of a {}.")
        (('{} texture.',), ('a drawing of a {}.',))
    """
    if "{}" in name:
        return (name,)
    if name not in TEMPLATES:
        raise unknown_name("set of templates", name, TEMPLATES)
    return TEMPLATES[name]


def class_sentences(
    class_names: Sequence[str],
    templates: Sequence[str],
    descriptions: Mapping[str, Sequence[str]] | None = None,
    *,
    descriptions_only: bool = False,
    allow_unknown: bool = False,
    warn: Callable[[str], None] = warnings.warn,
) -> list[list[str]]:
    """Return the sentences of every class.

    Args:
        class_names: The classes, in the order of their labels.
        templates: Sentences with `{}` in place of the class name.
        descriptions: Sentences of each class by its name (CuPL's format). They follow those of the templates.
        descriptions_only: Use the templates only for classes without descriptions.
        allow_unknown: Allow descriptions of other classes, for example all of ImageNet's with a subset of it.
        warn: Called with one sentence that names the classes without descriptions.

    Returns:
        A list of sentences per class.

    Raises:
        InputError: A name is empty, a template has no `{}`, or descriptions are of unknown classes.

    Examples:
        >>> class_sentences(["yo_yo"], ["a {}.", "the {}."], {"yo yo": ["A toy on a string."]})
        [['a yo yo.', 'the yo yo.', 'A toy on a string.']]
    """
    if isinstance(class_names, str) or not class_names:
        raise InputError(f"class_names must be a sequence with at least one name; given {class_names!r}.")
    _check_templates(templates)
    described: Sequence[tuple[str, ...]] = [()] * len(class_names)
    if descriptions is not None:
        described = _match_descriptions(class_names, descriptions, allow_unknown, warn)
    sentences = []
    for name, own in zip(class_names, described, strict=True):
        if not as_words(name):
            raise InputError(f"a class name has no word in it: {name!r}.")
        filled = [template.replace("{}", as_words(name)) for template in templates]
        sentences.append(list(own) if own and descriptions_only else filled + list(own))
    return sentences


def read_descriptions(file: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Read descriptions in CuPL's format.

    Args:
        file: A JSON object {class name: [sentence, ...]}.

    Returns:
        The sentences by class name.

    Raises:
        InputError: The file cannot be read or has another form.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "descriptions.json"
        >>> _ = file.write_text('{"cat": ["It purrs."]}')
        >>> read_descriptions(file)
        {'cat': ('It purrs.',)}
    """
    path = Path(file)
    descriptions = parse_json(path, read_text(path, "descriptions"))
    if not isinstance(descriptions, dict) or not descriptions:
        raise InputError(f"{str(path)!r}: descriptions must be an object {{class name: [sentence, ...]}}.")
    for name, sentences in descriptions.items():
        if not isinstance(sentences, list) or not all(isinstance(text, str) and text.strip() for text in sentences):
            raise InputError(f"{str(path)!r}: the descriptions of {name!r} must be a list of non-empty strings.")
    return {name: tuple(text.strip() for text in sentences) for name, sentences in descriptions.items()}


def _check_templates(templates: Sequence[str]) -> None:
    if isinstance(templates, str):
        raise InputError(f"templates must be a sequence of sentences; given the one string {templates!r}.")
    if not templates:
        raise InputError("there is no template; give at least one, such as 'a photo of a {}.'.")
    for template in templates:
        if "{}" not in template:
            raise InputError(f"the template {template!r} has no {{}} in place of the class name.")


def _match_descriptions(
    class_names: Sequence[str],
    descriptions: Mapping[str, Sequence[str]],
    allow_unknown: bool,
    warn: Callable[[str], None],
) -> list[tuple[str, ...]]:
    """Return the descriptions of each class, empty if it has none."""
    by_name = {as_words(name).casefold(): tuple(sentences) for name, sentences in descriptions.items()}
    classes = {as_words(name).casefold(): name for name in class_names}
    unknown = [name for name in descriptions if as_words(name).casefold() not in classes]
    if len(unknown) == len(descriptions) or (unknown and not allow_unknown):
        if not unknown:
            raise InputError("there are no descriptions; give at least one class's, or none at all.")
        similar = get_close_matches(as_words(unknown[0]).casefold(), list(classes), n=1)
        hint = f"did you mean {classes[similar[0]]!r}? " if similar else ""
        raise InputError(
            f"the descriptions name {unknown[0]!r}, which is none of the {len(classes)} classes: {hint}"
            f"Unknown in all: {len(unknown)} of {len(descriptions)}; remove them, or pass allow_unknown=True in Python."
        )
    matched = [by_name.get(as_words(name).casefold(), ()) for name in class_names]
    missing = [name for name, sentences in zip(class_names, matched, strict=True) if not sentences]
    if missing:
        few = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        warn(f"{len(missing)} of {len(matched)} classes have no description and use only the templates: {few}.")
    return matched
