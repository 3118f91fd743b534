"""Extension of griffe for the API reference: examples of docstrings (`>>>`) become fenced blocks."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

griffe: Any = import_module("griffe")  # of the extra `docs`; types are checked without it
EXAMPLE = re.compile(r"^([ \t]*)>>>.*(?:\n\1\S.*)*", flags=re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring whose examples stand between fences; Markdown would take them for quotations."""
    return EXAMPLE.sub(lambda match: f"{match[1]}```pycon\n{match[0]}\n{match[1]}```", text)


class FencedExamples(griffe.Extension):  # type: ignore[misc]
    """Fences the examples of every object that has a docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
