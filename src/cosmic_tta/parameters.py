"""Hyper-parameters as data: their types, ranges and help, checked when a method is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from cosmic_tta.errors import ParameterError, unknown_name

Range = tuple[float, float]
LARGE = 1e6  # no parameter is larger: beyond it float32 or the memory gives out


def param(default: Any, help: str, *, range: Range | None = None) -> Any:
    """Declare a hyper-parameter of a method: its default, what it does, the closed range of its values."""
    return field(default=default, metadata={"help": help, "range": range})


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _declared(kind: type) -> dict[str, Any]:
    return {part.name: part for part in fields(kind) if "help" in part.metadata}


def check_parameters(method: Any) -> None:
    """Refuse a value of the wrong type or outside its range; whole numbers pass as floats."""
    kind = type(method)
    for name, declared in _declared(kind).items():
        value = _typed(kind, name, getattr(method, name))
        allowed = declared.metadata["range"]
        for number in value if isinstance(value, tuple) else (value,):
            if allowed and not allowed[0] <= number <= allowed[1]:
                low, high = allowed
                raise ParameterError(f"{kind.name}: {name} must be from {low:g} to {high:g}; given {value!r}.")
        object.__setattr__(method, name, value)


def _typed(kind: type, name: str, value: Any) -> Any:
    hint = _hints(kind)[name]
    where = f"{kind.name}: {name}"  # type: ignore[attr-defined]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ParameterError(f"{where} must be one of {', '.join(map(str, get_args(hint)))}; given {value!r}.")
        return value
    if get_origin(hint) is tuple:
        try:
            return tuple(_number(where, float, one) for one in _of_length(value, len(get_args(hint))))
        except (TypeError, ValueError) as error:
            wanted = len(get_args(hint))
            raise ParameterError(f"{where} must be {wanted} numbers; given {value!r}.") from error
    if hint is bool:
        if not isinstance(value, bool):
            raise ParameterError(f"{where} must be true or false; given {value!r}.")
        return value
    return _number(where, hint, value)


def _of_length(value: Any, wanted: int) -> tuple[Any, ...]:
    values = tuple(value)
    if isinstance(value, str) or len(values) != wanted:
        raise ValueError
    return values


def _number(where: str, kind: type, value: Any) -> Any:
    whole = "whole " if kind is int else ""
    if isinstance(value, bool) or not hasattr(value, "__float__") or not math.isfinite(value) or kind(value) != value:
        raise ParameterError(f"{where} must be a {whole}number; given {value!r}.")
    return kind(value)


def values(method: Any) -> dict[str, Any]:
    """Return the hyper-parameters of a method as plain values, ready for JSON."""
    plain = {name: getattr(method, name) for name in _declared(type(method))}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def describe(kind: type) -> dict[str, dict[str, Any]]:
    """Return type, default, range, choices and help of every hyper-parameter of a kind of method."""
    told = {}
    for name, declared in _declared(kind).items():
        hint = _hints(kind)[name]
        row: dict[str, Any] = {"help": declared.metadata["help"], "default": declared.default}
        if get_origin(hint) is Literal:
            row |= {"type": "choice", "choices": list(get_args(hint))}
        elif get_origin(hint) is tuple:
            row |= {"type": f"{len(get_args(hint))} numbers", "default": list(declared.default)}
        else:
            row |= {"type": hint.__name__}
        if declared.metadata["range"]:
            row["range"] = list(declared.metadata["range"])
        told[name] = row
    return told


def known_parameter(kind: type, name: str) -> None:
    """Refuse a name that is no hyper-parameter of this kind of method."""
    if name not in _declared(kind):
        error = unknown_name(f"parameter of {kind.name}", name, _declared(kind))  # type: ignore[attr-defined]
        raise ParameterError(str(error))


def parse(kind: type, name: str, text: str) -> Any:
    """Read a hyper-parameter from the text of a command line, as its type says."""
    known_parameter(kind, name)
    hint = _hints(kind)[name]
    where = f"{kind.name}: {name}"  # type: ignore[attr-defined]
    if hint is bool:
        words = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if text.lower() not in words:
            raise ParameterError(f"{where} must be true or false; given {text!r}.")
        return words[text.lower()]
    if get_origin(hint) is Literal:
        return cast(Any, next((choice for choice in get_args(hint) if str(choice) == text), text))
    try:
        if get_origin(hint) is tuple:
            return tuple(float(one) for one in text.split(","))
        return float(text)
    except ValueError as error:
        wanted = "numbers, with commas between" if get_origin(hint) is tuple else "a number"
        raise ParameterError(f"{where} must be {wanted}; given {text!r}.") from error
