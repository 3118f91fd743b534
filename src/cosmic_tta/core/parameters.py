"""Hyper-parameters of methods: declared with type, range and help, and checked when a method is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from cosmic_tta.core.errors import ParameterError, unknown_name

Range = tuple[float, float]
LARGE = 1e6  # upper limit of every parameter: beyond it float32 or the memory is too small


def param(default: Any, help: str, *, range: Range | None = None, sizes_state: bool = False) -> Any:
    """Declare a hyper-parameter of a method.

    Args:
        default: The value that is used unless another is given.
        help: What the parameter does, in one line.
        range: Lowest and highest value that are allowed.
        sizes_state: The state's arrays grow with this parameter. A file that asks for a large value and holds
            little is refused before memory is taken.

    Returns:
        A dataclass field.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Toy:
        ...     name = "toy"
        ...     shots: int = param(8, "slots per class", range=(1, LARGE), sizes_state=True)
        >>> describe(Toy)["shots"]["help"], state_slots(Toy(shots=3))
        ('slots per class', 3)
    """
    return field(default=default, metadata={"help": help, "range": range, "sizes_state": sizes_state})


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _declared(kind: type) -> dict[str, Any]:
    return {part.name: part for part in fields(kind) if "help" in part.metadata}


def check_parameters(method: Any) -> None:
    """Raise a ParameterError for a value of the wrong type or outside its range; a whole number passes as a float."""
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
    """Return the hyper-parameters of a method as plain values, ready for JSON.

    Examples:
        >>> from cosmic_tta import Dmn
        >>> values(Dmn(shots=2))["shots"]
        2
    """
    plain = {name: getattr(method, name) for name in _declared(type(method))}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def state_slots(method: Any) -> int:
    """Return the largest parameter that sizes a method's state, in slots per class; 1 if there is none."""
    sizing = [name for name, declared in _declared(type(method)).items() if declared.metadata["sizes_state"]]
    return max((int(getattr(method, name)) for name in sizing), default=1)


def describe(kind: type) -> dict[str, dict[str, Any]]:
    """Return type, default, range, choices and help of every hyper-parameter of a method's class."""
    described = {}
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
        described[name] = row
    return described


def known_parameter(kind: type, name: str) -> None:
    """Raise a ParameterError for a name that is no hyper-parameter of a method's class."""
    if name not in _declared(kind):
        error = unknown_name(f"parameter of {kind.name}", name, _declared(kind))  # type: ignore[attr-defined]
        raise ParameterError(str(error))


def parse(kind: type, name: str, text: str) -> Any:
    """Convert the text of a command line to the type of a hyper-parameter.

    Examples:
        >>> from cosmic_tta import Cosmic
        >>> parse(Cosmic, "weights", "1,2,3"), parse(Cosmic, "text_slot", "yes")
        ((1.0, 2.0, 3.0), True)
    """
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
