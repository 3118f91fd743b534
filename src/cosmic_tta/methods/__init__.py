"""The methods, one paper a file, and the dict that knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosmic_tta.core import Method
from cosmic_tta.errors import unknown_name
from cosmic_tta.methods.bayes_means import BayesMeans
from cosmic_tta.methods.cosmic import Cosmic
from cosmic_tta.methods.dmn import Dmn
from cosmic_tta.methods.tda import Tda
from cosmic_tta.methods.tip_adapter import TipAdapter
from cosmic_tta.methods.zero_shot import ZeroShot
from cosmic_tta.parameters import known_parameter

METHODS: Mapping[str, type[Method[Any]]] = {
    kind.name: kind for kind in (ZeroShot, TipAdapter, Tda, Dmn, Cosmic, BayesMeans)
}


def split_name(spec: str) -> tuple[type[Method[Any]], str]:
    """Split `name` or `name@preset` into the kind of method and the preset's name."""
    name, _, preset = spec.partition("@")
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    kind = METHODS[name]
    if (preset or "default") not in kind.presets:
        raise unknown_name(f"preset of {name}", preset, kind.presets)
    return kind, preset or "default"


def make_method(spec: str, **parameters: Any) -> Method[Any]:
    """Make a method by name, `cosmic` or `cosmic@official`, with parameters that differ from the preset.

    >>> make_method("cosmic@official", shots=4).shots
    4
    """
    kind, preset = split_name(spec)
    for name in parameters:
        if name != "support" or "support" not in kind.needs:
            known_parameter(kind, name)
    return kind(**{**kind.presets[preset], **parameters})
