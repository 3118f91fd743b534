"""Extension of griffe for the API reference: how docstrings and signatures are shown.

- Examples (`>>>`) become fenced blocks, under one heading everywhere.
- `param(default, help, ...)` shows its default in the signature, and its help under "Args".
- A default made by a private function shows as `...`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

griffe: Any = import_module("griffe")  # of the extra `docs`; types are checked without it
EXAMPLE = re.compile(r"^([ \t]*)>>>.*(?:\n\1\S.*)*", flags=re.MULTILINE)
HEADING = re.compile(r"^([ \t]*)Examples?:$", flags=re.MULTILINE)
PRIVATE_FACTORY = re.compile(r"default_factory=_\w+")


def fenced(text: str) -> str:
    """Return a docstring whose examples stand between fences; Markdown would take them for quotations."""
    text = EXAMPLE.sub(lambda match: f"{match[1]}```pycon\n{match[0]}\n{match[1]}```", text)
    return HEADING.sub(r"\1Examples:", text)


def with_arguments(text: str, helps: dict[str, str]) -> str:
    """Return a docstring with the help of parameters under "Args", before its examples."""
    if not helps or re.search(r"^Args:$", text, flags=re.MULTILINE):
        return text
    section = "\n".join(["Args:", *(f"    {name}: {sentence}" for name, sentence in helps.items())])
    before, heading, after = text.partition("Examples:")
    return "\n\n".join(part for part in (before.rstrip(), section, heading + after) if part)


class ReferencePages(griffe.Extension):  # type: ignore[misc]
    """Prepares docstrings and defaults of every object for the pages of the API reference."""

    def on_attribute_instance(self, *, attr: Any, **_: Any) -> None:
        """Shorten the default of a field, and keep the help of a parameter for its class."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "param":
            default, *rest = value.arguments
            attr.value = default
            if rest and isinstance(rest[0], str):
                attr.extra["cosmic_tta"]["help"] = rest[0][1:-1]
        elif PRIVATE_FACTORY.search(str(value)):
            attr.value = "..."

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Prepare the docstring of one object."""
        if obj.docstring is None:
            return
        text = fenced(obj.docstring.value)
        if obj.is_class:
            helps = {
                name: one.extra["cosmic_tta"].get("help", "") for name, one in obj.members.items() if one.is_attribute
            }
            text = with_arguments(text, {name: sentence for name, sentence in helps.items() if sentence})
        obj.docstring.value = text
