"""Grid files: an evaluation plan as TOML. `docs/guide/sweeps.md` describes every key."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import CosmicError, InputError, ParameterError, unknown_name
from cosmic_tta.core.parameters import describe, known_parameter
from cosmic_tta.evaluation.plan import EvaluationPlan
from cosmic_tta.methods import split_name

KEYS = ("methods", "packs", "orders", "aux", "seeds", "limit", "support", "checkpoints", "tower", "params")


def read_grid(file: str | os.PathLike[str]) -> EvaluationPlan:
    r"""Read a grid file and check its plan. Packs, support and checkpoints are relative to the file.

    Args:
        file: A TOML file with `packs`, `methods` and more.

    Returns:
        A plan that passed its `check`.

    Raises:
        CosmicError: The file cannot be read, or its plan cannot be run. The message names the file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as folder:
        ...     superclass_pack(images=20).write(f"{folder}/pack")
        ...     _ = Path(f"{folder}/grid.toml").write_text('packs = ["pack"]\nmethods = ["tda"]\nseeds = [0, 1]')
        ...     len(read_grid(f"{folder}/grid.toml").jobs())
        2
    """
    path = Path(file)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"no grid at {str(path)!r}; docs/guide/sweeps.md shows one.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{str(path)!r} cannot be read as TOML: {error}") from error
    try:
        plan = _parse(table, path.parent)
        plan.check()
    except CosmicError as error:
        raise type(error)(f"{str(path)!r}: {error}") from error
    return plan


def _parse(table: Mapping[str, Any], base: Path) -> EvaluationPlan:
    for key in table:
        if key not in KEYS:
            raise unknown_name("key of a grid", key, KEYS)
    methods = _names(table, "methods")
    support, limit = _text(table, "support"), table.get("limit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise InputError(f"limit must be a whole number, at least 1; given {limit!r}.")
    return EvaluationPlan(
        packs=tuple(str((base / name).resolve()) for name in _names(table, "packs")),
        methods=methods,
        parameters=_parameters(table.get("params", {}), methods),
        orders=_names(table, "orders", ("shuffle",)),
        aux=_names(table, "aux", ("given",)),
        seeds=_seeds(table.get("seeds", [0])),
        limit=limit,
        support=None if support is None else str((base / support).resolve()),
        checkpoints=tuple(str(base / name) for name in _names(table, "checkpoints", ())),
        tower=_text(table, "tower"),
    )


def _names(table: Mapping[str, Any], key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    if default is not None and key not in table:
        return default
    found = table.get(key)
    found = [found] if isinstance(found, str) else found
    if not found or not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{key} must be a list of names, at least one; given {found!r}.")
    return tuple(found)


def _text(table: Mapping[str, Any], key: str) -> str | None:
    found = table.get(key)
    if found is not None and not isinstance(found, str):
        raise InputError(f"{key} must be one name in quotes; given {found!r}.")
    return found


def _seeds(found: Any) -> tuple[int, ...]:
    found = [found] if isinstance(found, int) else found
    whole = isinstance(found, list) and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in found)
    if not found or not whole:
        raise InputError(f"seeds must be a list of whole numbers, at least one; given {found!r}.")
    return tuple(found)


def _parameters(tables: Any, methods: Sequence[str]) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Return the values per method. A table of a method holds for all its presets; one of a preset overrides it."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InputError("params takes one table per method: [params.cosmic], then shots = [4, 8].")
    found: dict[str, dict[str, tuple[Any, ...]]] = {spec: {} for spec in methods}
    for name in sorted(tables, key=lambda name: "@" in name):
        kind, preset = split_name(name)
        presets = kind.presets if "@" not in name else (preset,)
        users = [spec for spec in methods if split_name(spec)[0] is kind and split_name(spec)[1] in presets]
        if not users:
            raise InputError(f"params.{name}: the grid runs no {name}; it runs {', '.join(methods)}.")
        for key, value in tables[name].items():
            choices = _choices(name, key, value)
            for spec in users:
                found[spec][key] = choices
    return found


def _choices(spec: str, key: str, value: Any) -> tuple[Any, ...]:
    """Return the values of one parameter. A list is several values, unless a single value is a list itself."""
    kind = split_name(spec)[0]
    known_parameter(kind, key)
    is_list = describe(kind)[key]["type"].endswith("numbers")
    several = isinstance(value, list) and (not is_list or all(isinstance(item, list) for item in value))
    choices = tuple(tuple(item) if isinstance(item, list) else item for item in (value if several else [value]))
    if not choices:
        raise ParameterError(f"params.{spec}.{key} has no values; give at least one.")
    return choices
