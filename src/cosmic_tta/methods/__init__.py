"""The methods, one paper a file, and the dict that knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosmic_tta.core import Method
from cosmic_tta.errors import unknown_name
from cosmic_tta.methods.bayes_means import BayesMeans
from cosmic_tta.methods.cocoop import CoCoop, CoCoopLesson
from cosmic_tta.methods.coop import Coop, CoopLesson
from cosmic_tta.methods.cosmic import Cosmic
from cosmic_tta.methods.difftpt import DiffTpt
from cosmic_tta.methods.dmn import Dmn
from cosmic_tta.methods.tda import Tda
from cosmic_tta.methods.tip_adapter import TipAdapter
from cosmic_tta.methods.tip_adapter_f import TipAdapterF, TipAdapterFLesson
from cosmic_tta.methods.tpt import Tpt
from cosmic_tta.methods.zero_shot import ZeroShot
from cosmic_tta.parameters import known_parameter
from cosmic_tta.prompt_learning import Lesson

METHODS: Mapping[str, type[Method[Any]]] = {
    kind.name: kind
    for kind in (ZeroShot, TipAdapter, Tda, Dmn, Cosmic, BayesMeans, Tpt, DiffTpt, Coop, CoCoop, TipAdapterF)
}
LESSONS: Mapping[str, type[Lesson]] = {kind.method: kind for kind in (CoopLesson, CoCoopLesson, TipAdapterFLesson)}
GIVEN = ("support", "checkpoint")  # what a method takes beside its hyper-parameters, if it needs it


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
        if name not in GIVEN or name not in kind.needs:
            known_parameter(kind, name)
    return kind(**{**kind.presets[preset], **parameters})
