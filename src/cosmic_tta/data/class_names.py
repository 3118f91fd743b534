"""Class names: read from files, made unique, written as in a sentence."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import InputError

WORDNET_ID = r"n[0-9]{8}"


@dataclass(frozen=True)
class ClassNames:
    """Class names from a file.

    Args:
        names: The names, in the order of their labels.
        keys: The WordNet ids or folder names of the classes, if the file has them.

    Examples:
        >>> ClassNames(("tench", "goldfish"), ("n01440764", "n01443537")).names
        ('tench', 'goldfish')
    """

    names: tuple[str, ...]
    keys: tuple[str, ...] | None = None


def as_words(name: str) -> str:
    """Return a class name as in a sentence: spaces for underscores, no WordNet id behind the name.

    >>> as_words("Yo_Yo"), as_words("sunglasses (n04355933)"), as_words("kite (bird of prey)")
    ('Yo Yo', 'sunglasses', 'kite (bird of prey)')
    """
    return " ".join(re.sub(rf" \({WORDNET_ID}\)$", "", name).replace("_", " ").split())


def disambiguate(names: Sequence[str], keys: Sequence[str] | None) -> tuple[str, ...]:
    """Add the WordNet id to names that several classes have. ImageNet has two such pairs.

    >>> disambiguate(("tench", "missile", "missile"), ("n01440764", "n03773504", "n04008634"))
    ('tench', 'missile (n03773504)', 'missile (n04008634)')
    """
    count = Counter(names)
    pairs = zip(names, keys or [""] * len(names), strict=True)
    return tuple(
        f"{name} ({key})" if count[name] > 1 and re.fullmatch(WORDNET_ID, key) else name for name, key in pairs
    )


def read_class_names(file: str | os.PathLike[str]) -> ClassNames:
    r"""Read class names from a text file with one name per line, a JSON list, or a JSON object {key: name}.

    If every line begins with a WordNet id (`n01440764 tench`), the ids are the keys. Empty lines are skipped.

    Args:
        file: The file; its suffix decides between text and JSON.

    Returns:
        The names in the order of the file.

    Raises:
        InputError: The file cannot be read, has no names, or has a key twice.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "names.txt"
        >>> _ = file.write_text("n01440764 tench\nn01443537 goldfish\n")
        >>> read_class_names(file)
        ClassNames(names=('tench', 'goldfish'), keys=('n01440764', 'n01443537'))
    """
    path = Path(file)
    text = read_text(path, "class names")
    keys: list[str] | None = None
    if path.suffix.lower() == ".json":
        value = parse_json(path, text)
        if isinstance(value, dict):
            keys, value = list(value), list(value.values())
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise InputError(f"{str(path)!r}: class names must be a list of strings or an object of strings.")
        names = [name.strip() for name in value]
    else:
        names = [line.strip() for line in text.splitlines() if line.strip()]
        pairs = [re.fullmatch(rf"({WORDNET_ID})\s+(.+)", name) for name in names]
        if names and all(pairs):
            keys, names = [pair[1] for pair in pairs if pair], [pair[2] for pair in pairs if pair]
    if not names or not all(names):
        problem = "an empty class name" if names else "no class name"
        raise InputError(f"{str(path)!r} has {problem}; write one name per line.")
    if keys is not None and len(set(keys)) < len(keys):
        raise InputError(f"{str(path)!r} has the same key more than once.")
    return ClassNames(tuple(names), None if keys is None else tuple(keys))


def read_text(path: Path, content: str) -> str:
    """Read a UTF-8 file; `content` says in the error what it should hold."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{content} cannot be read from {str(path)!r}: {reason}.") from error


def parse_json(path: Path, text: str) -> Any:
    """Parse the text of a JSON file."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not valid JSON: {error}.") from error
