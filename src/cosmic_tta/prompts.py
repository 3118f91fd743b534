"""Class names, templates and descriptions → sentences → text features."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.errors import InputError, unknown_name
from cosmic_tta.ops import Array, as_float32, unit

ENSEMBLE = (
    "a bad photo of the {}.",
    "a {} in a video game.",
    "a origami {}.",
    "a photo of the small {}.",
    "art of the {}.",
    "a photo of the large {}.",
    "itap of a {}.",
)
# Under a data set's key: what the COSMIC paper says to its classes (its supplement's table of prompts).
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
WORDNET_ID = r"n[0-9]{8}"
BATCH = 256  # sentences encoded at once


class TextTower(Protocol):
    """What turns sentences into unit rows."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, D]."""
        ...


@dataclass(frozen=True)
class ClassNames:
    """Class names in the order of their labels, and the keys they go by on disk, if a file tells them."""

    names: tuple[str, ...]
    keys: tuple[str, ...] | None = None  # WordNet ids or folder names, beside the names


def named_templates(name: str) -> tuple[str, ...]:
    """Return a set of templates by its name, or a template that is given as it is.

    >>> named_templates("dtd"), named_templates("a drawing of a {}.")
    (('{} texture.',), ('a drawing of a {}.',))
    """
    if "{}" in name:
        return (name,)
    if name not in TEMPLATES:
        raise unknown_name("set of templates", name, TEMPLATES)
    return TEMPLATES[name]


def spoken(name: str) -> str:
    """Return a class name as a sentence says it: blanks for underscores, no WordNet id that only tells twins apart.

    >>> spoken("Yo_Yo"), spoken("sunglasses (n04355933)"), spoken("kite (bird of prey)")
    ('Yo Yo', 'sunglasses', 'kite (bird of prey)')
    """
    return " ".join(re.sub(rf" \({WORDNET_ID}\)$", "", name).replace("_", " ").split())


def distinct(names: Sequence[str], keys: Sequence[str] | None) -> tuple[str, ...]:
    """Tell classes of one name apart by their WordNet ids, where they have them: ImageNet has two such pairs.

    >>> distinct(("tench", "missile", "missile"), ("n01440764", "n03773504", "n04008634"))
    ('tench', 'missile (n03773504)', 'missile (n04008634)')
    """
    count = Counter(names)
    pairs = zip(names, keys or [""] * len(names), strict=True)
    return tuple(
        f"{name} ({key})" if count[name] > 1 and re.fullmatch(WORDNET_ID, key) else name for name, key in pairs
    )


def class_texts(
    class_names: Sequence[str],
    templates: Sequence[str],
    descriptions: Mapping[str, Sequence[str]] | None = None,
    *,
    alone: bool = False,
    others: bool = False,
    say: Callable[[str], None] = warnings.warn,
) -> list[list[str]]:
    """Put every class into sentences.

    Args:
        class_names: the classes, in the order of their labels.
        templates: sentences with `{}` where the class name goes.
        descriptions: sentences for each class by its name (CuPL's format); they follow the templates' sentences.
        alone: take a class's descriptions instead of the templates' sentences.
        others: let descriptions speak of classes that are not here, as ImageNet's do beside a part of it.
        say: told, in one sentence, which classes have no description; those fall back to the templates.

    >>> class_texts(["yo_yo"], ["a {}.", "the {}."], {"yo yo": ["A toy on a string."]})
    [['a yo yo.', 'the yo yo.', 'A toy on a string.']]
    """
    if isinstance(class_names, str) or not class_names:
        raise InputError(f"class_names must be a sequence with at least one name; given {class_names!r}.")
    _check_templates(templates)
    extra = [()] * len(class_names) if descriptions is None else _described(class_names, descriptions, others, say)
    texts = []
    for name, own in zip(class_names, extra, strict=True):
        if not spoken(name):
            raise InputError(f"a class name has no word in it: {name!r}.")
        filled = [template.replace("{}", spoken(name)) for template in templates]
        texts.append(list(own) if own and alone else filled + list(own))
    return texts


def text_features(tower: TextTower, texts: Sequence[Sequence[str]], *, batch: int = BATCH) -> Array:
    """Encode each class's sentences, average their unit rows and scale the mean to length one: [K, D]."""
    if isinstance(texts, str) or not texts or any(isinstance(own, str) or not own for own in texts):
        raise InputError("texts must hold at least one class, each with at least one sentence; see class_texts.")
    sentences = [sentence for own in texts for sentence in own]
    blocks = []
    for start in range(0, len(sentences), batch):
        asked = sentences[start : start + batch]
        rows = as_float32(tower.encode_texts(asked))
        if rows.ndim != 2 or len(rows) != len(asked):
            raise InputError(f"the text tower gave an array {list(rows.shape)} for {len(asked)} sentences.")
        blocks.append(rows)
    rows = unit(np.concatenate(blocks))
    ends = np.cumsum([len(own) for own in texts])
    means = [rows[end - len(own) : end].mean(axis=0) for own, end in zip(texts, ends, strict=True)]
    features = unit(as_float32(means))
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(features, axis=1) - 1) < 1e-3))
    if len(bad):
        raise InputError(
            f"the sentences of class {int(bad[0])} add up to no direction: {list(texts[int(bad[0])])[:3]}."
        )
    return features


def read_class_names(file: str | os.PathLike[str]) -> ClassNames:
    """Read class names: a text file with one a line, or a JSON list, or a JSON object {key: name}.

    If every line begins with a WordNet id (`n01440764 tench`), the ids are the keys. Empty lines are skipped.
    """
    path = Path(file)
    text = _read(path, "class names")
    keys: list[str] | None = None
    if path.suffix.lower() == ".json":
        told = _parse(path, text)
        if isinstance(told, dict):
            keys, told = list(told), list(told.values())
        if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
            raise InputError(f"{str(path)!r}: class names must be a list of strings or an object of strings.")
        names = [name.strip() for name in told]
    else:
        names = [line.strip() for line in text.splitlines() if line.strip()]
        pairs = [re.fullmatch(rf"({WORDNET_ID})\s+(.+)", name) for name in names]
        if names and all(pairs):
            keys, names = [pair[1] for pair in pairs if pair], [pair[2] for pair in pairs if pair]
    if not names or not all(names):
        raise InputError(f"{str(path)!r}: {'an empty class name' if names else 'no class name'} in it; one a line.")
    if keys is not None and len(set(keys)) < len(keys):
        raise InputError(f"{str(path)!r}: the same key stands in it more than once.")
    return ClassNames(tuple(names), None if keys is None else tuple(keys))


def read_descriptions(file: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Read descriptions in CuPL's format: a JSON object {class name: [sentence, ...]}."""
    path = Path(file)
    told = _parse(path, _read(path, "descriptions"))
    if not isinstance(told, dict) or not told:
        raise InputError(f"{str(path)!r}: descriptions must be an object {{class name: [sentence, ...]}}.")
    for name, sentences in told.items():
        if not isinstance(sentences, list) or not all(isinstance(text, str) and text.strip() for text in sentences):
            raise InputError(f"{str(path)!r}: the descriptions of {name!r} must be a list of non-empty strings.")
    return {name: tuple(text.strip() for text in sentences) for name, sentences in told.items()}


def _check_templates(templates: Sequence[str]) -> None:
    if isinstance(templates, str):
        raise InputError(f"templates must be a sequence of sentences; given the one string {templates!r}.")
    if not templates:
        raise InputError("there is no template; 'a photo of a {}.' is the plain one.")
    for template in templates:
        if "{}" not in template:
            raise InputError(f"the template {template!r} has no {{}} where the class name goes.")


def _described(
    class_names: Sequence[str], descriptions: Mapping[str, Sequence[str]], others: bool, say: Callable[[str], None]
) -> list[tuple[str, ...]]:
    """Return each class's descriptions, empty where there are none."""
    told = {spoken(name).casefold(): tuple(sentences) for name, sentences in descriptions.items()}
    here = {spoken(name).casefold(): name for name in class_names}
    strangers = [name for name in descriptions if spoken(name).casefold() not in here]
    if len(strangers) == len(descriptions) or (strangers and not others):
        near = get_close_matches(spoken(strangers[0]).casefold(), list(here), n=1) if strangers else []
        hint = f"did you mean {here[near[0]]!r}? " if near else ""
        given = f"the descriptions speak of {strangers[0]!r}" if strangers else "there are no descriptions"
        raise InputError(
            f"{given}, which is none of the {len(here)} classes: {hint}"
            f"Unknown in all: {len(strangers)} of {len(descriptions)}; take them out, or pass others=True in Python."
        )
    found = [told.get(spoken(name).casefold(), ()) for name in class_names]
    missing = [name for name, sentences in zip(class_names, found, strict=True) if not sentences]
    if missing:
        few = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        say(f"{len(missing)} of {len(found)} classes have no description and keep to the templates: {few}.")
    return found


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{what} cannot be read from {str(path)!r}: {reason}.") from error


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is no JSON: {error}.") from error
